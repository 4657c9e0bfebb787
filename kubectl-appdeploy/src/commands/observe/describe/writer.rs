//! Writes the lines of a description: a label and its value, or a section.

use std::fmt::Write as _;

use model::NextCommand;

use crate::terminal::ui::{RenderOptions, clean, wrap};

/// The width of the labels.
const LABEL: usize = 14;

/// A page that is being written.
pub struct Page<'a> {
    pub text: String,
    pub look: &'a RenderOptions,
}

impl Page<'_> {
    /// Writes a label with its value, broken between words where the terminal ends.
    pub fn line(&mut self, label: &str, value: &str) {
        let padded = format!("{:LABEL$}", format!("{label}:"));
        let room = self.look.width.map(|width| width.saturating_sub(LABEL));
        let mut lines = wrap(&clean(value), room).into_iter();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(self.text, "{}{first}", self.look.label(&padded));
        for line in lines {
            let _ = writeln!(self.text, "{:LABEL$}{line}", "");
        }
    }

    /// Writes a command in one piece, so that it can be copied.
    pub fn command(&mut self, label: &str, command: &NextCommand) {
        let padded = format!("{:LABEL$}", format!("{label}:"));
        let _ = writeln!(self.text, "{}{}", self.look.label(&padded), self.look.command(command));
    }

    /// Writes a label with several values below each other.
    pub fn list(&mut self, label: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            if index == 0 {
                self.line(label, value);
            } else {
                let _ = writeln!(self.text, "{:LABEL$}{}", "", clean(value));
            }
        }
    }

    /// Returns the width of a section's content.
    pub fn room(&self) -> Option<usize> {
        self.look.width.map(|width| width.saturating_sub(2))
    }

    pub fn section(&mut self, title: &str, body: &str) {
        let _ = writeln!(self.text, "{}", self.look.label(&format!("{title}:")));
        for line in body.lines() {
            let _ = writeln!(self.text, "  {line}");
        }
    }
}
