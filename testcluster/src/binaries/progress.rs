//! Reports the progress of downloads and builds: a first build takes minutes, and silence looks like a hang.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// How often a long step prints a line where lines can't be replaced, as in a CI log.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// One of several steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1.
    pub nth: usize,
    /// The number of all steps.
    pub of: usize,
    /// The action, such as "building etcd 3.7.3".
    pub name: String,
    /// How long it usually takes on this machine.
    pub usual: Option<Duration>,
}

impl Step {
    /// Returns the name with the number, if there are several steps.
    fn label(&self) -> String {
        if self.of > 1 {
            format!("[{}/{}] {}", self.nth, self.of, self.name)
        } else {
            self.name.clone()
        }
    }
}

/// Receives the progress of a build.
pub trait Progress {
    /// A step starts.
    fn start(&mut self, step: &Step);
    /// Called about once a second during a step. `so_far` is its progress.
    fn tick(&mut self, step: &Step, elapsed: Duration, so_far: &str);
    /// A step is done.
    fn done(&mut self, step: &Step, elapsed: Duration, bytes: u64);
    /// A step failed.
    fn failed(&mut self, step: &Step);
    /// A note for the user.
    fn note(&mut self, text: &str);
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn start(&mut self, _: &Step) {}
    fn tick(&mut self, _: &Step, _: Duration, _: &str) {}
    fn done(&mut self, _: &Step, _: Duration, _: u64) {}
    fn failed(&mut self, _: &Step) {}
    fn note(&mut self, _: &str) {}
}

/// Prints a line for each step. A terminal gets one line that changes each second, other outputs another one each 30 s.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    live: bool,
    reported: Duration,
}

impl Lines<std::io::Stderr> {
    /// Returns a progress that writes to standard error.
    #[must_use]
    pub fn stderr() -> Self {
        let err = std::io::stderr();
        let live = err.is_terminal();
        Self::new(err, live)
    }
}

impl<W: Write> Lines<W> {
    /// Returns a progress that writes to `out`, which replaces lines if it is `live`.
    pub fn new(out: W, live: bool) -> Self {
        Self {
            out,
            live,
            reported: Duration::ZERO,
        }
    }

    fn write(&mut self, text: &str) {
        // A closed reader must not end a build.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Replaces the changing line.
    fn line(&mut self, line: &str) {
        let back = if self.live { "\r\x1b[K" } else { "" };
        self.write(&format!("{back}{line}\n"));
    }
}

impl<W: Write> Progress for Lines<W> {
    fn start(&mut self, step: &Step) {
        self.reported = Duration::ZERO;
        let usual = step
            .usual
            .map(|usual| format!(", about {}", rough(usual)))
            .unwrap_or_default();
        let text = format!("  … {}{usual}", step.label());
        let end = if self.live { "" } else { "\n" };
        self.write(&format!("{text}{end}"));
    }

    fn tick(&mut self, step: &Step, elapsed: Duration, so_far: &str) {
        if !self.live && elapsed < self.reported + SIGN_OF_LIFE {
            return;
        }
        self.reported = elapsed;
        // A busy machine takes longer, and "9 min of about 7 min" would look like an error.
        let usual = step
            .usual
            .filter(|usual| elapsed < *usual)
            .map(|usual| format!(" of about {}", rough(usual)))
            .unwrap_or_default();
        let text = format!("  … {}: {}{usual}, {so_far}", step.label(), exact(elapsed));
        if self.live {
            self.write(&format!("\r\x1b[K{text}"));
        } else {
            self.line(&text);
        }
    }

    fn done(&mut self, step: &Step, elapsed: Duration, bytes: u64) {
        let size = match bytes / 1_000_000 {
            0 => String::new(),
            megabytes => format!(", {megabytes} MB"),
        };
        self.line(&format!("  ✓ {} ({}{size})", step.label(), exact(elapsed)));
    }

    fn failed(&mut self, step: &Step) {
        self.line(&format!("  ✗ {}", step.label()));
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("    {text}"));
    }
}

/// Returns a duration as an estimate.
fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{} s", seconds.max(5).next_multiple_of(5)),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Returns a duration in seconds.
fn exact(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> Step {
        Step {
            nth: 1,
            of: 4,
            name: "building kubernetes 1.36.3".into(),
            usual: Some(Duration::from_secs(380)),
        }
    }

    fn run(live: bool) -> String {
        let mut lines = Lines::new(Vec::new(), live);
        lines.start(&step());
        for second in 1..=61 {
            lines.tick(
                &step(),
                Duration::from_secs(second),
                &format!("{} packages", second * 12),
            );
        }
        lines.done(&step(), Duration::from_secs(62), 420_000_000);
        String::from_utf8(lines.out).unwrap()
    }

    #[test]
    fn terminal_gets_one_line_that_changes_each_second() {
        let text = run(true);
        let lines: Vec<&str> = text.split("\r\x1b[K").collect();
        assert_eq!(lines.len(), 63);
        assert_eq!(lines[0], "  … [1/4] building kubernetes 1.36.3, about 7 min");
        assert_eq!(
            lines[61],
            "  … [1/4] building kubernetes 1.36.3: 1 min 1 s of about 7 min, 732 packages"
        );
        assert_eq!(lines[62], "  ✓ [1/4] building kubernetes 1.36.3 (1 min 2 s, 420 MB)\n");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{text}");
    }

    #[test]
    fn step_that_takes_longer_than_usual_shows_no_estimate() {
        let mut lines = Lines::new(Vec::new(), true);
        lines.tick(&step(), Duration::from_secs(381), "1633 packages");
        let text = String::from_utf8(lines.out).unwrap();
        assert!(
            text.ends_with("building kubernetes 1.36.3: 6 min 21 s, 1633 packages"),
            "{text}"
        );
    }

    #[test]
    fn log_gets_a_line_each_half_minute() {
        let text = run(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "  … [1/4] building kubernetes 1.36.3, about 7 min",
                "  … [1/4] building kubernetes 1.36.3: 30 s of about 7 min, 360 packages",
                "  … [1/4] building kubernetes 1.36.3: 1 min 0 s of about 7 min, 720 packages",
                "  ✓ [1/4] building kubernetes 1.36.3 (1 min 2 s, 420 MB)",
            ]
        );
    }
}
