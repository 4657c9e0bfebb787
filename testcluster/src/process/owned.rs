//! A process that ends with its owner.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Error, name, prepare};

/// How long a process may take to exit before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// How often the state of an ending process is polled; the kernel has no wait with a timeout.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running program, which is stopped when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `command`, with its output in the file `log`.
    ///
    /// The kernel kills the program if this process ends without dropping it, if util-linux' `setpriv` is installed (any
    /// Debian; Alpine: `apk add setpriv`).
    ///
    /// # Errors
    /// When the program or the log can't be opened.
    pub fn spawn(command: &Command, log: &Path) -> Result<Self, Error> {
        let name = name(command);
        let start = |source| Error::Start {
            program: name.clone(),
            source,
        };
        let child = if setpriv() {
            // `setpriv` itself would start, and only its exit code would show that the program is missing.
            find(command).map_err(start)?;
            let mut tied = tie(command);
            prepare(&mut tied, log)?;
            spawn_from_lasting_thread(tied)
        } else {
            let mut loose = copy(command, Command::new(command.get_program()));
            prepare(&mut loose, log)?;
            loose.spawn()
        };
        Ok(Self {
            child: child.map_err(start)?,
            name,
            log: log.to_owned(),
        })
    }

    /// Returns the program's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status of the process, if it has exited.
    ///
    /// # Errors
    /// When the kernel returns one.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Returns the last `lines` lines of the log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let from = text.lines().count().saturating_sub(lines);
        text.lines().skip(from).collect::<Vec<_>>().join("\n")
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process has exited.
    pub fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        let pid = self.pid();
        // Checked first: the id of an exited process may have been reused.
        if let Ok(Some(_)) = self.exited() {
            return Err(Error::Signal {
                pid,
                source: nix::Error::ESRCH,
            });
        }
        kill(self.nix_pid(), signal).map_err(|source| Error::Signal { pid, source })
    }

    /// Stops the process: sends SIGTERM, waits for at most `grace`, then kills.
    pub fn stop(&mut self, grace: Duration) {
        if self.signal(Signal::SIGTERM).is_err() {
            return;
        }
        // A stopped process receives no other signal before it continues.
        let _ = self.signal(Signal::SIGCONT);
        let asked = Instant::now();
        while asked.elapsed() < grace {
            match self.exited() {
                Ok(None) => thread::sleep(POLL_INTERVAL),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn nix_pid(&self) -> Pid {
        Pid::from_raw(self.pid().cast_signed())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(GRACE);
    }
}

/// Returns the command that runs `command` so that the kernel kills it when its parent ends.
fn tie(command: &Command) -> Command {
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program());
    copy(command, setpriv)
}

/// Adds the arguments, the environment and the folder of `from` to `to`.
fn copy(from: &Command, mut to: Command) -> Command {
    to.args(from.get_args());
    for (variable, value) in from.get_envs() {
        match value {
            Some(value) => to.env(variable, value),
            None => to.env_remove(variable),
        };
    }
    if let Some(folder) = from.get_current_dir() {
        to.current_dir(folder);
    }
    to
}

/// Returns whether `setpriv` exists and supports `--pdeathsig`, which `BusyBox`'s does not.
fn setpriv() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "true"])
            .output()
            .is_ok_and(|output| output.status.success())
    })
}

fn find(command: &Command) -> io::Result<()> {
    let program = Path::new(command.get_program());
    let found = if program.components().count() > 1 {
        program.is_file()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    if found {
        Ok(())
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

type Job = (Command, mpsc::Sender<io::Result<Child>>);

/// Spawns from a thread that lasts as long as this process.
///
/// The kernel sends the parent-death signal when the *thread* that spawned the process ends, and a test runner's threads
/// end with their tests, even if the process is still in use.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (send, receive) = mpsc::channel::<Job>();
        thread::spawn(move || {
            for (mut command, reply) in receive {
                let _ = reply.send(command.spawn());
            }
        });
        send
    });
    let gone = |_| io::Error::other("the thread that starts processes has ended");
    let (reply, answer) = mpsc::channel();
    spawner
        .send((command, reply))
        .map_err(|error| gone(error.to_string()))?;
    answer.recv().map_err(|error| gone(error.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Record;
    use crate::wait::eventually;

    fn sleeper(folder: &Path) -> Process {
        let mut command = Command::new("sleep");
        command.arg("600");
        Process::spawn(&command, &folder.join("log")).unwrap()
    }

    #[test]
    fn dropped_process_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        let record = Record::of(process.pid());
        assert!(record.is_alive());
        drop(process);
        assert!(!record.is_alive());
    }

    #[test]
    fn process_survives_the_thread_that_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (mut process, thread) = thread::scope(|scope| {
            let started = scope.spawn(|| {
                let mut command = Command::new("sh");
                command.args([
                    "-c",
                    "trap 'echo alive' USR1; echo ready; while true; do sleep 0.01; done",
                ]);
                let process = Process::spawn(&command, &log).unwrap();
                eventually("it is ready", || process.log_tail(1) == "ready");
                (process, nix::unistd::gettid())
            });
            started.join().unwrap()
        });
        // A thread can be joined a little before the kernel has sent the signal to its children.
        eventually("the thread ends", || {
            !Path::new(&format!("/proc/self/task/{thread}")).exists()
        });
        process.signal(Signal::SIGUSR1).unwrap();
        // It would not print this if it had been killed.
        eventually("it is alive", || process.log_tail(1) == "alive");
    }

    #[test]
    fn process_stopped_by_a_signal_can_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = sleeper(folder.path());
        process.signal(Signal::SIGSTOP).unwrap();
        let asked = Instant::now();
        process.stop(Duration::from_secs(60));
        assert!(process.exited().unwrap().is_some());
        assert!(asked.elapsed() < Duration::from_secs(30), "it had to be killed");
    }

    #[test]
    fn missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Process::spawn(&Command::new("/nowhere/etcd"), &folder.path().join("log")).unwrap_err();
        assert_eq!(error.to_string(), "failed to start etcd");
    }

    #[test]
    fn output_of_a_process_is_in_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three"]);
        let mut process = Process::spawn(&command, &folder.path().join("log")).unwrap();
        process.child.wait().unwrap();
        assert_eq!(process.log_tail(2), "two\nthree");
    }
}
