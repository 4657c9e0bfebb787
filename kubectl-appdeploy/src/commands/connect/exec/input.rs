//! What is typed, as it is typed, and how large the terminal is.

use std::io::{self, IsTerminal as _, Read as _};

use tokio::sync::mpsc;

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

#[cfg(unix)]
mod unix {
    use std::io;

    use nix::sys::termios::{self, SetArg, Termios};
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use crate::error::{Error, Result};

    /// A terminal that passes on each key, also Ctrl-C. It is as before when this is dropped.
    pub struct Raw(Termios);

    impl Raw {
        /// Makes the terminal pass on each key.
        pub fn enter() -> Result<Self> {
            let failed = |source: nix::Error| Error::failed(format!("cannot prepare the terminal: {source}"));
            let before = termios::tcgetattr(io::stdin()).map_err(failed)?;
            let mut raw = before.clone();
            termios::cfmakeraw(&mut raw);
            termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).map_err(failed)?;
            Ok(Self(before))
        }
    }

    impl Drop for Raw {
        fn drop(&mut self) {
            // The terminal may be gone, and then there is nothing to put back.
            let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.0);
        }
    }

    /// Reports changes of the terminal's size.
    pub struct Sizes(Signal);

    impl Sizes {
        /// Waits for it.
        pub async fn changed(&mut self) {
            self.0.recv().await;
        }
    }

    /// Returns the size changes, if the system reports them.
    pub fn sizes() -> Option<Sizes> {
        signal(SignalKind::window_change()).ok().map(Sizes)
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use crate::error::{Error, Result};

    /// A terminal that passes on each key.
    pub struct Raw;

    impl Raw {
        /// Fails: it is not supported here.
        pub fn enter() -> Result<Self> {
            Err(Error::usage("-t is not supported on this system").why("leave it out, or run kubectl exec -it POD"))
        }
    }

    /// Reports changes of the terminal's size.
    pub struct Sizes;

    impl Sizes {
        /// Waits for it.
        pub async fn changed(&mut self) {
            std::future::pending().await
        }
    }

    /// Returns the size changes.
    pub fn sizes() -> Option<Sizes> {
        None
    }
}

#[cfg(not(unix))]
pub use elsewhere::{Raw, Sizes, sizes};
#[cfg(unix)]
pub use unix::{Raw, Sizes, sizes};
