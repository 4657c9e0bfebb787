//! What a person sees while the cluster comes up: one line per step, with the time it took.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use testcluster::binaries::{Lines, Progress as _, Step};

/// Writes progress to a handle (standard error for the command, a buffer for a test).
pub(crate) struct Ui {
    out: Mutex<Box<dyn Write + Send>>,
    /// A terminal gets each step's line at its start and completed in place.
    live: bool,
}

impl Ui {
    /// Returns the progress of the command: standard error, so that standard output carries results alone.
    #[must_use]
    pub(crate) fn stderr() -> Self {
        let err = std::io::stderr();
        let live = err.is_terminal();
        Self {
            out: Mutex::new(Box::new(err)),
            live,
        }
    }

    /// Writes one line.
    pub(crate) fn say(&self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    /// Runs one step; its line names it and, once it is done, how long it took.
    ///
    /// # Errors
    /// Returns the step's own error, after the line has been closed.
    pub(crate) fn step<T, E>(
        &self,
        name: &str,
        work: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        if self.live {
            self.write(&format!("  … {name}"));
        }
        let start = Instant::now();
        let result = work();
        let mark = if result.is_ok() { "✓" } else { "✗" };
        let back = if self.live { "\r\x1b[K" } else { "" };
        self.write(&format!("{back}  {mark} {name}{}\n", took(start.elapsed())));
        result
    }

    /// Runs a step that takes minutes, and reports each second what it has done.
    ///
    /// # Errors
    /// Returns the step's own error, after the line has been closed.
    pub(crate) fn long_step<T: Send>(
        &self,
        name: &str,
        usual: Duration,
        so_far: impl Fn() -> String,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        let step = Step {
            nth: 1,
            of: 1,
            name: name.to_owned(),
            usual: Some(usual),
        };
        let mut lines = Lines::new(Writer(self), self.live);
        let started = Instant::now();
        lines.start(&step);
        let result = thread::scope(|scope| {
            let (send, done) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let _send = send;
                work()
            });
            while done.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                lines.tick(&step, started.elapsed(), &so_far());
            }
            worker.join().map_err(|_| anyhow!("{name} failed"))?
        });
        match &result {
            Ok(_) => lines.done(&step, started.elapsed(), 0),
            Err(_) => lines.failed(&step),
        }
        result
    }

    fn write(&self, text: &str) {
        if let Ok(mut out) = self.out.lock() {
            // A closed terminal must not end the work.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// Lets a progress write where the rest is written.
struct Writer<'a>(&'a Ui);

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says a duration the way a person would, and nothing for what nobody notices.
fn took(time: Duration) -> String {
    match time.as_secs() {
        0 if time.as_millis() < 300 => String::new(),
        0..=59 => format!(" ({:.1} s)", time.as_secs_f64()),
        seconds => format!(" ({} min {} s)", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_steps_show_no_time_and_long_ones_minutes() {
        assert_eq!(took(Duration::from_millis(20)), "");
        assert_eq!(took(Duration::from_millis(1500)), " (1.5 s)");
        assert_eq!(took(Duration::from_secs(125)), " (2 min 5 s)");
    }
}
