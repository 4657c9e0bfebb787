//! Child processes that never outlive their owner, and others that are meant to.
//!
//! A test may end in any way: by returning, by a panic, by a time-out's SIGKILL. A control plane
//! left behind would then eat memory and ports until someone noticed. So a [`Process`] is ended
//! when it is dropped, and the kernel ends it when there was nobody left to drop it.
//!
//! What shall stay is started with [`detach`], and found again through its [`Record`].

mod owned;
mod record;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use owned::Process;
pub use record::Record;

/// Why a process could not be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not start.
    #[error("failed to start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// Its log file could not be made.
    #[error("failed to open the log {}", path.display())]
    OpenLog {
        /// The log.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It did not take a signal.
    #[error("failed to signal process {pid}")]
    Signal {
        /// The process.
        pid: u32,
        /// Why not.
        source: nix::Error,
    },
    /// It is still there although it was killed.
    #[error("process {pid} is still there after SIGKILL: see `cat /proc/{pid}/stack` for what it waits on")]
    Outlive {
        /// The process.
        pid: u32,
    },
}

/// Starts a process that outlives this one, with its output in the file `log`.
///
/// # Errors
/// When the program or the log can't be opened.
pub fn detach(mut command: Command, log: &Path) -> Result<Record, Error> {
    prepare(&mut command, log)?;
    let child = command.spawn().map_err(|source| Error::Start {
        program: name(&command),
        source,
    })?;
    Ok(Record::of(child.id()))
}

/// Gives `command` its log, no input, and a process group of its own: a Ctrl-C is for the person's
/// command, which then decides itself in what order its children end.
fn prepare(command: &mut Command, log: &Path) -> Result<(), Error> {
    let open = |source| Error::OpenLog {
        path: log.to_owned(),
        source,
    };
    let out = File::options().create(true).append(true).open(log).map_err(open)?;
    let err = out.try_clone().map_err(open)?;
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    Ok(())
}

/// Returns what a person calls the program.
fn name(command: &Command) -> String {
    Path::new(command.get_program())
        .file_name()
        .unwrap_or(OsStr::new("?"))
        .to_string_lossy()
        .into_owned()
}
