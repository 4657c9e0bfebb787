//! Progress of the cluster's start: one line per step, with its duration.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Writes progress to a handle (standard error for the command, a buffer for a test).
pub(crate) struct Ui {
    out: Mutex<Box<dyn Write + Send>>,
    /// A terminal gets each step's line at its start and completed in place.
    live: bool,
}

impl Ui {
    /// Returns the progress of the command: standard error, so that standard output only has results.
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

    /// Runs one step; its line has its name and, at the end, its duration.
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

    fn write(&self, text: &str) {
        if let Ok(mut out) = self.out.lock() {
            // A closed terminal must not end the work.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// Returns a duration in words, empty if it is too short to matter.
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
