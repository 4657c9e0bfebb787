//! Child processes that never outlive their owner, and detached ones.
//!
//! A test can end in any way: by returning, by a panic, by SIGKILL after a timeout. A control plane that is left behind
//! would use memory and ports. So a [`Process`] is stopped when it is dropped, and the kernel kills it if its owner was
//! killed.
//!
//! Permanent processes are started with [`detach`], and found again by their [`Record`].

mod memory;
mod open;
mod owned;
mod record;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use memory::Memory;
pub use open::Open;
pub use owned::Process;
pub use record::Record;

/// An error of starting or stopping a process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It did not start.
    #[error("failed to start {program}")]
    Start {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// Its log file could not be created.
    #[error("failed to open the log {}", path.display())]
    OpenLog {
        /// The log.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It could not be signaled.
    #[error("failed to signal process {pid}")]
    Signal {
        /// The process.
        pid: u32,
        /// The reason.
        source: nix::Error,
    },
    /// It still exists after it was killed.
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

/// Sets the log, no input, and a separate process group for `command`: Ctrl-C is for the user's command, which decides in
/// what order its children end.
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

/// Returns the file name of the program.
fn name(command: &Command) -> String {
    Path::new(command.get_program())
        .file_name()
        .unwrap_or(OsStr::new("?"))
        .to_string_lossy()
        .into_owned()
}
