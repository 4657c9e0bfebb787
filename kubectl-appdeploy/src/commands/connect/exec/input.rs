//! Reads key by key from the terminal, and reports its size.

use std::io::{self, IsTerminal as _, Read as _};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::error::{Error, Result};

/// Whether stdin is a terminal.
pub fn is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Returns what comes in, until its end.
///
/// A read of stdin can't be cancelled: it has its own thread, which is not joined.
pub fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; 8192];
        loop {
            match stdin.read(&mut buffer) {
                Ok(count @ 1..) if sender.blocking_send(buffer[..count].to_vec()).is_ok() => {}
                Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    });
    receiver
}

/// A terminal that passes on each key, also Ctrl-C. It is as before when this is dropped.
pub struct Raw(());

impl Raw {
    /// Makes the terminal pass on each key.
    pub fn enter() -> Result<Self> {
        let failed = |source| Error::failed(format!("cannot prepare the terminal: {source}"));
        enable_raw_mode().map_err(failed)?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // If the terminal was closed, there is nothing to restore.
        let _ = disable_raw_mode();
    }
}

/// Waits for changes of the terminal's size; forever where the system does not report them.
pub struct Sizes(#[cfg(unix)] Option<Signal>);

impl Sizes {
    /// Reports changes from now on.
    #[cfg(unix)]
    pub fn new() -> Self {
        Self(signal(SignalKind::window_change()).ok())
    }

    /// Reports none on this system.
    #[cfg(not(unix))]
    pub const fn new() -> Self {
        Self()
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.0 {
            signal.recv().await;
            return;
        }
        std::future::pending::<()>().await;
    }
}
