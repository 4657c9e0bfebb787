//! One run of the plugin.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use testcluster::ControlPlane;
use testcluster::process::Process;

/// How long a command may take, with any fault.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The plugin's exit codes for failures that a fault can cause: failed, failed for good, timed out.
const CODES: [i32; 3] = [1, 3, 4];

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It exited, with a code.
    Exited(i32),
    /// It was killed at the planned point.
    Killed,
    /// It was killed because it did not exit.
    Stuck,
}

/// The result of a command.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) end: End,
    /// Its output.
    pub(super) said: String,
}

/// Runs a command line until it exits, or kills it when `is_far_enough` returns true.
pub(super) fn run(
    plugin: &Path,
    control_plane: &ControlPlane,
    kubeconfig: &Path,
    line: &str,
    is_far_enough: impl Fn() -> bool,
) -> Result<Done> {
    let mut command = Command::new(plugin);
    command
        .args(line.split_whitespace())
        .env("KUBECONFIG", kubeconfig)
        .env("RUST_BACKTRACE", "1")
        .env_remove("FORCE_COLOR");
    let log = control_plane.fresh_path("plugin", "log");
    let mut process = Process::spawn(&command, &log).context("failed to start the plugin")?;
    let started = Instant::now();
    let end = loop {
        if let Some(status) = process.exited()? {
            break End::Exited(status.code().unwrap_or(-1));
        }
        let end = if is_far_enough() {
            End::Killed
        } else if started.elapsed() > TIMEOUT {
            End::Stuck
        } else {
            thread::sleep(POLL_INTERVAL);
            continue;
        };
        // It may have exited in the meantime.
        let _ = process.signal(Signal::SIGKILL);
        while process.exited()?.is_none() {
            thread::sleep(POLL_INTERVAL);
        }
        break end;
    };
    let said = process.log_tail(usize::MAX);
    let _ = std::fs::remove_file(&log);
    Ok(Done { end, said })
}

impl Done {
    /// Returns what is wrong with its exit code and output, given that there was a fault.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let says = |text: &str| self.said.contains(text);
        if says("panicked") || says("stack backtrace") {
            problems.push("the plugin has panicked".to_owned());
        }
        match self.end {
            End::Exited(0) | End::Killed => {}
            End::Stuck => problems.push(format!("the plugin did not exit within {TIMEOUT:?}")),
            End::Exited(code) => {
                if !CODES.contains(&code) {
                    problems.push(format!("the plugin exited with {code}"));
                }
                let is_error = |line: &str| line.starts_with("error: ") || line.starts_with("Error from server");
                if !self.said.lines().any(is_error) || !says("\n  next: ") {
                    problems.push("the plugin did not say what went wrong and what to do next".to_owned());
                }
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(end: End, said: &str) -> Vec<String> {
        let said = said.to_owned();
        Done { end, said }.problems()
    }

    #[test]
    fn failure_has_an_error_and_a_next_command() {
        let told = "warning: old\nerror: no answer\n  next: try again";
        assert_eq!(problems(End::Exited(0), ""), [""; 0]);
        assert_eq!(problems(End::Killed, "namespace/a created"), [""; 0]);
        assert_eq!(problems(End::Exited(1), told), [""; 0]);
        assert_eq!(problems(End::Exited(4), told), [""; 0]);
        assert_eq!(problems(End::Exited(101), told), ["the plugin exited with 101"]);
        for said in ["", "error: no answer", "next: try again"] {
            assert_eq!(
                problems(End::Exited(1), said),
                ["the plugin did not say what went wrong and what to do next"]
            );
        }
        let panicked = "thread 'main' panicked at src/main.rs:1:1:\nno";
        assert_eq!(problems(End::Killed, panicked), ["the plugin has panicked"]);
        assert_eq!(problems(End::Stuck, "").len(), 1);
    }
}
