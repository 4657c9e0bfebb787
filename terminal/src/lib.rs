//! Runs a program on a terminal, and reads its screen.
//!
//! For the program it is a real terminal (a pseudo-terminal, whose Ctrl-C is a signal). The screen is computed from its
//! output, so a test reads the screen instead of the bytes that produced it.

mod screen;

use std::io::{self, Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::Pty;

pub use screen::Screen;
pub use vt100::{Cell, Color};

/// The Enter key.
pub const ENTER: &str = "\r";
/// Ctrl-C.
pub const CTRL_C: &str = "\x03";

/// The default number of lines of a terminal.
pub const ROWS: u16 = 24;
/// The default number of columns of a terminal.
pub const COLUMNS: u16 = 80;

/// How long a test waits for a screen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An error of the terminal, or of waiting for a screen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The terminal or the program could not be started.
    #[error("failed to start a program at a terminal")]
    Start(#[from] pty_process::Error),
    /// The exit code could not be read, or the input not be written.
    #[error("failed to talk to the program at the terminal")]
    Talk(#[from] io::Error),
    /// The program exited before the expected screen.
    #[error("the program ended without {what}; the screen:\n{screen}")]
    Ended {
        /// The expected text.
        what: String,
        /// The last screen.
        screen: String,
    },
    /// The expected screen did not appear in time.
    #[error("{what} was not seen within {} s; the screen:\n{screen}", TIMEOUT.as_secs())]
    Late {
        /// The expected text.
        what: String,
        /// The last screen.
        screen: String,
    },
}

/// A program on its own terminal. It is killed when this is dropped.
pub struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Seen>,
}

/// The output of the program so far.
struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    parser: vt100::Parser,
    written: Vec<u8>,
    over: bool,
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for more output, or the end of the program.
    fn next<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        end: Instant,
        what: &str,
    ) -> Result<MutexGuard<'s, State>, Error> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let (what, screen) = (what.to_owned(), Screen::of(state.parser.screen()).text());
            return Err(Error::Late { what, screen });
        }
        let waited = self.changed.wait_timeout(state, left);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Terminal {
    /// Starts a program on a terminal of 24 lines and 80 columns, with the type xterm unless the command sets another
    /// one.
    ///
    /// # Errors
    /// When there is no pseudo-terminal, or the program does not exist.
    pub fn start(command: Command) -> Result<Self, Error> {
        Self::sized(command, ROWS, COLUMNS)
    }

    /// Starts a program on a terminal with the given size.
    ///
    /// # Errors
    /// When there is no pseudo-terminal, or the program does not exist.
    pub fn sized(mut command: Command, rows: u16, columns: u16) -> Result<Self, Error> {
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let (pty, pts) = pty_process::blocking::open()?;
        pty.resize(Size::new(rows, columns))?;
        let child = pty_process::blocking::Command::from(command).spawn(pts)?;
        let pty = Arc::new(pty);
        let seen = Arc::new(Seen {
            state: Mutex::new(State {
                parser: vt100::Parser::new(some(rows), some(columns), 1000),
                written: Vec::new(),
                over: false,
            }),
            changed: Condvar::new(),
        });
        let (from, to) = (Arc::clone(&pty), Arc::clone(&seen));
        thread::spawn(move || watch(&from, &to));
        Ok(Self { pty, child, seen })
    }

    /// Returns the program's process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends keys.
    ///
    /// # Errors
    /// When the terminal is closed.
    pub fn send(&self, keys: &str) -> Result<(), Error> {
        Ok((&*self.pty).write_all(keys.as_bytes())?)
    }

    /// Changes the size, which the program receives as a signal.
    ///
    /// # Errors
    /// When the terminal is closed.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<(), Error> {
        self.seen.lock().parser.set_size(some(rows), some(columns));
        Ok(self.pty.resize(Size::new(rows, columns))?)
    }

    /// Returns the current screen.
    #[must_use]
    pub fn screen(&self) -> Screen {
        Screen::of(self.seen.lock().parser.screen())
    }

    /// Returns all output so far, with escape sequences.
    #[must_use]
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().written).into_owned()
    }

    /// Waits until the screen satisfies a condition, and returns it.
    ///
    /// # Errors
    /// When the program exits before, or after a minute. The error has the screen.
    pub fn wait(&self, what: &str, mut wanted: impl FnMut(&Screen) -> bool) -> Result<Screen, Error> {
        let end = Instant::now() + TIMEOUT;
        let mut state = self.seen.lock();
        loop {
            let screen = Screen::of(state.parser.screen());
            if wanted(&screen) {
                return Ok(screen);
            }
            if state.over {
                let (what, screen) = (what.to_owned(), screen.text());
                return Err(Error::Ended { what, screen });
            }
            state = self.seen.next(state, end, what)?;
        }
    }

    /// Waits until the screen contains a text, and returns the screen.
    ///
    /// # Errors
    /// When the program exits before, or after a minute. The error has the screen.
    pub fn shows(&self, text: &str) -> Result<Screen, Error> {
        self.wait(text, |screen| screen.text().contains(text))
    }

    /// Waits until the program exits, and returns its exit code and the last screen.
    ///
    /// The code is -1 if it was killed by a signal.
    ///
    /// # Errors
    /// When it does not exit within a minute.
    pub fn end(mut self) -> Result<(i32, Screen), Error> {
        let end = Instant::now() + TIMEOUT;
        let mut state = self.seen.lock();
        while !state.over {
            state = self.seen.next(state, end, "the end of the program")?;
        }
        let screen = Screen::of(state.parser.screen());
        drop(state);
        let status = self.child.wait()?;
        Ok((status.code().unwrap_or(-1), screen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads until the last program on the terminal has exited, which the terminal reports as an error.
fn watch(pty: &Pty, seen: &Seen) {
    let mut buffer = [0; 4096];
    let mut pty = pty;
    loop {
        let read = pty.read(&mut buffer);
        let mut state = seen.lock();
        match read {
            Ok(count @ 1..) => {
                state.parser.process(&buffer[..count]);
                state.written.extend_from_slice(&buffer[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => state.over = true,
        }
        seen.changed.notify_all();
        if state.over {
            return;
        }
    }
}

/// A terminal has at least one line and one column.
fn some(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}
