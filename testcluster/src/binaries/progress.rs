//! How a build tells what it does: a first build takes minutes, and silence looks like a hang.

use std::io::Write;
use std::time::Duration;

use super::Program;

/// Hears how far a build has come.
pub trait Progress {
    /// The `nth` of `of` missing programs is being built; `nth` counts from 1.
    fn building(&mut self, program: Program, nth: usize, of: usize);
    /// The program is still being built.
    fn still_building(&mut self, program: Program, elapsed: Duration);
    /// The program is there.
    fn built(&mut self, program: Program, elapsed: Duration, bytes: u64);
    /// Another process is building the same, and is waited for.
    fn waiting(&mut self, program: Program);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn building(&mut self, _: Program, _: usize, _: usize) {}
    fn still_building(&mut self, _: Program, _: Duration) {}
    fn built(&mut self, _: Program, _: Duration, _: u64) {}
    fn waiting(&mut self, _: Program) {}
}

/// Writes a line for each step, as a person at a terminal or in a CI log wants to read it.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    said_how_long: bool,
}

impl Lines<std::io::Stderr> {
    /// Returns a progress that writes to standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(std::io::stderr())
    }
}

impl<W: Write> Lines<W> {
    /// Returns a progress that writes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            said_how_long: false,
        }
    }

    fn line(&mut self, line: &str) {
        // A reader that went away is no reason to give up a build.
        let _ = writeln!(self.out, "{line}");
    }
}

impl<W: Write> Progress for Lines<W> {
    fn building(&mut self, program: Program, nth: usize, of: usize) {
        if !std::mem::replace(&mut self.said_how_long, true) {
            self.line("Building programs from source, once; the first takes minutes, later ones share its work.");
        }
        self.line(&format!("[{nth}/{of}] {program} ({})", super::origin(program)));
    }

    fn still_building(&mut self, program: Program, elapsed: Duration) {
        self.line(&format!("      {program}: {} s so far", elapsed.as_secs()));
    }

    fn built(&mut self, program: Program, elapsed: Duration, bytes: u64) {
        self.line(&format!(
            "      {program}: {} s, {} MB",
            elapsed.as_secs(),
            bytes / 1_000_000
        ));
    }

    fn waiting(&mut self, program: Program) {
        self.line(&format!("{program} is being built by another process; waiting for it"));
    }
}
