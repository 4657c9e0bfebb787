//! A shell like a user's, in the checkout, with its programs on the PATH.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Checkout, Cluster};

/// How long a script may run. Long, because a machine may be busy.
const LIMIT: Duration = Duration::from_secs(600);
/// How long an ending script may take, to end its background jobs, before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How often the state of a script is polled; the kernel has no wait with a timeout.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// bash with the environment of a user who followed the guide.
#[derive(Clone, Debug)]
pub struct Shell {
    root: PathBuf,
    path: OsString,
    kubeconfig: Option<PathBuf>,
    limit: Duration,
}

impl Shell {
    /// Opens a shell for a cluster.
    ///
    /// # Errors
    /// When a folder's name can't be part of a PATH.
    pub fn new(checkout: &Checkout, cluster: Cluster) -> Result<Self> {
        let folder = match cluster {
            Cluster::Current => checkout.built().to_path_buf(),
            Cluster::Real | Cluster::Fake => checkout.bin(),
        };
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&inherited)))
            .context("failed to set the PATH")?;
        Ok(Self {
            root: checkout.root().to_path_buf(),
            path,
            kubeconfig: (cluster != Cluster::Current).then(|| checkout.kubeconfig()),
            limit: LIMIT,
        })
    }

    /// Returns the same shell with another kubeconfig.
    #[must_use]
    pub fn with_kubeconfig(mut self, file: &Path) -> Self {
        self.kubeconfig = Some(file.to_path_buf());
        self
    }

    /// Returns the command for a script, which ends at its first failure.
    #[must_use]
    pub fn command(&self, script: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-eu", "-o", "pipefail", "-c", script])
            .current_dir(&self.root)
            .env("PATH", &self.path)
            .stdin(Stdio::null());
        if let Some(file) = &self.kubeconfig {
            bash.env("KUBECONFIG", file);
        }
        // Cargo's variables for a test of its own package would make a build in this shell start over: ring's build
        // script reads the folder, and half of the workspace depends on it.
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.to_str().is_some_and(is_of_a_package)) {
            bash.env_remove(name);
        }
        bash
    }

    /// Returns the command for a line on a terminal, where prompts can be answered.
    #[must_use]
    pub fn at_terminal(&self, line: &str) -> Command {
        let mut bash = self.command(line);
        bash.stdin(Stdio::inherit());
        for name in ["NO_COLOR", "FORCE_COLOR", "LC_ALL", "LC_CTYPE"] {
            bash.env_remove(name);
        }
        bash.env("LANG", "C.UTF-8");
        bash
    }

    /// Runs a script and returns its output.
    ///
    /// # Errors
    /// When it fails, or runs for more than ten minutes, with its output.
    pub fn run(&self, script: &str) -> Result<String> {
        // Files, because a pipe only ends when all background jobs of the script have ended.
        let output = || tempfile::tempfile().context("failed to create a file for the output");
        let (mut out, mut err) = (output()?, output()?);
        let mut command = self.command(script);
        command.stdout(out.try_clone()?).stderr(err.try_clone()?);
        let mut child = command.spawn().context("failed to start bash")?;
        let status = wait(&mut child, self.limit).context("failed to wait for bash")?;
        let printed = read(&mut out)?;
        let Some(status) = status else {
            let seconds = self.limit.as_secs();
            bail!(
                "`{script}` did not end within {seconds} s:\n{printed}{}",
                read(&mut err)?
            );
        };
        if !status.success() {
            bail!("`{script}` ended with {status}:\n{printed}{}", read(&mut err)?);
        }
        Ok(printed)
    }

    /// Runs a script with visible output, as if typed.
    ///
    /// # Errors
    /// When it fails, which prints the reason.
    pub fn show(&self, script: &str) -> Result<()> {
        writeln!(std::io::stdout(), "\n$ {script}").context("failed to print")?;
        let status = self.command(script).status().context("failed to start bash")?;
        if !status.success() {
            bail!("`{script}` ended with {status}");
        }
        Ok(())
    }
}

/// Waits for a script, which is ended after `limit`. Returns its status if it has ended by itself.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, Instant::now() + limit)? {
        return Ok(Some(status));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM)?;
    if wait_until(child, Instant::now() + GRACE)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(None)
}

fn wait_until(child: &mut Child, end: Instant) -> Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns what a script has written to the file of its output.
fn read(output: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes).context("failed to read the output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether cargo sets this variable for the package that it runs.
fn is_of_a_package(variable: &str) -> bool {
    ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_EXE_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(limit: Duration) -> Shell {
        Shell {
            root: std::env::temp_dir(),
            path: std::env::var_os("PATH").unwrap(),
            kubeconfig: None,
            limit,
        }
    }

    #[test]
    fn script_that_does_not_end_is_ended_with_its_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let (ready, ended) = (folder.path().join("ready"), folder.path().join("ended"));
        let script = format!(
            "trap 'kill $(jobs -p); touch {}' EXIT\nsleep 600 &\ntouch {}\nwhile :; do sleep 0.1; done",
            ended.display(),
            ready.display()
        );
        let mut child = shell(LIMIT).command(&script).spawn().unwrap();
        let begin = Instant::now();
        while !ready.exists() {
            assert!(begin.elapsed() < LIMIT, "it does not begin");
            thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(wait(&mut child, Duration::ZERO).unwrap(), None);
        assert!(ended.exists());
    }

    #[test]
    fn limit_is_reported() {
        let error = shell(Duration::ZERO).run("sleep 600").unwrap_err().to_string();
        assert!(error.starts_with("`sleep 600` did not end within 0 s:\n"), "{error}");
    }

    #[test]
    fn script_ends_before_its_background_jobs() {
        let output = shell(LIMIT).run("sleep 600 & echo $!").unwrap();
        let job = Pid::from_raw(output.trim().parse().unwrap());
        kill(job, Signal::SIGKILL).expect("the job runs");
    }

    #[test]
    fn failed_script_is_reported_with_both_outputs() {
        let error = shell(LIMIT)
            .run("echo out; echo err >&2; exit 3")
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("ended with exit status: 3:\nout\nerr\n"), "{error}");
    }
}
