//! Identifies a process by its id and start time.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::Error;

/// How often the state of an ending process is polled: it is not our child, so it can't be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the kernel may take to remove a process that was killed.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A process id with the time its process started.
///
/// Ids are reused, so the id alone may belong to another process later. As text it is `<pid> <start>`, for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The process id.
    pub pid: u32,
    /// Its start time, in the kernel's ticks since boot; 0 if it had exited already.
    pub started: u64,
}

impl Record {
    /// Records the process that has the id `pid` now.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        Self {
            pid,
            started: started(pid).unwrap_or(0),
        }
    }

    /// Returns whether the recorded process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Stops the recorded process, and only that: sends SIGTERM, waits for at most `grace`, then kills.
    ///
    /// # Errors
    /// When it belongs to another user, or survives.
    pub fn end(&self, grace: Duration) -> Result<(), Error> {
        for (signal, limit) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, LAST_WAIT)] {
            if !self.is_alive() {
                return Ok(());
            }
            match kill(Pid::from_raw(self.pid.cast_signed()), signal) {
                Ok(()) | Err(nix::Error::ESRCH) => {}
                Err(source) => return Err(Error::Signal { pid: self.pid, source }),
            }
            let asked = Instant::now();
            while self.is_alive() && asked.elapsed() < limit {
                thread::sleep(POLL_INTERVAL);
            }
        }
        if self.is_alive() {
            Err(Error::Outlive { pid: self.pid })
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.started)
    }
}

/// A text that is not a [`Record`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected \"<pid> <start time>\", got {0:?}")]
pub struct ParseRecord(String);

impl FromStr for Record {
    type Err = ParseRecord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (pid, started) = text.trim().split_once(' ')?;
            Some(Self {
                pid: pid.parse().ok()?,
                started: started.parse().ok()?,
            })
        };
        parse().ok_or_else(|| ParseRecord(text.to_owned()))
    }
}

/// Returns the start time of a running process; `None` if it has exited.
#[cfg(not(target_os = "linux"))]
fn started(pid: u32) -> Option<u64> {
    let output = std::process::Command::new("ps")
        .args(["-o", "stat=,lstart=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    let line = String::from_utf8_lossy(&output.stdout);
    let (state, start) = line.trim().split_once(char::is_whitespace)?;
    // Only compared, so any number that is unique for each time is sufficient.
    (!state.starts_with('Z')).then(|| xxhash_rust::xxh3::xxh3_64(start.trim().as_bytes()))
}

/// Returns the start time of a running process; `None` if it has exited or is a zombie.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22 of the whole line; the state was field 3.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::detach;

    #[test]
    fn detached_process_is_found_again_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("600");
        let written = detach(command, &folder.path().join("log")).unwrap().to_string();
        let read: Record = written.parse().unwrap();
        assert!(read.is_alive());
        read.end(Duration::from_secs(5)).unwrap();
        assert!(!read.is_alive());
    }

    #[test]
    fn process_that_reuses_the_id_is_not_ended() {
        let ours = Record::of(std::process::id());
        let theirs = Record {
            started: ours.started + 1,
            ..ours
        };
        // Would kill this test if it did not check the start time.
        theirs.end(Duration::ZERO).unwrap();
        assert!(ours.is_alive());
    }

    #[test]
    fn record_without_a_process_is_not_alive() {
        assert!(
            !Record {
                pid: u32::MAX >> 1,
                started: 0
            }
            .is_alive()
        );
        assert_eq!("12".parse::<Record>(), Err(ParseRecord("12".to_owned())));
    }
}
