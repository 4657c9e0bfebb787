//! A page that is redrawn in place, on a screen of its own; the last one stays when it is left.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Ui, plain};
use crate::error::Result;

/// The other screen of the terminal, without cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Back to where the command was typed.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Whether the terminal shows it.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// A screen on which pages are drawn. It is left when this is dropped, also by Ctrl-C.
pub struct AltScreen<'a> {
    ui: &'a mut Ui,
    last: Option<String>,
}

impl<'a> AltScreen<'a> {
    /// Returns a stage on a terminal. Nothing is drawn yet.
    pub const fn new(ui: &'a mut Ui) -> Self {
        Self { ui, last: None }
    }

    /// Leaves the other screen if the terminal shows it, for a process that panics: nothing is dropped then.
    pub fn leave_any() {
        if IS_ENTERED.swap(false, Ordering::Relaxed) {
            let mut out = io::stdout();
            let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Returns the output of this screen.
    pub const fn ui(&self) -> &Ui {
        self.ui
    }

    /// Draws a page over the one before, cut to what the terminal has room for.
    pub fn draw(&mut self, text: &str) -> Result<()> {
        let mut page = cut(text, Ui::height().max(4), self.ui.width().unwrap_or(80));
        if self.ui.ascii {
            page = plain(&page);
        }
        let enter = if self.last.is_none() { ENTER } else { "" };
        IS_ENTERED.store(true, Ordering::Relaxed);
        let mut frame = format!("{enter}\x1b[H");
        for (index, line) in page.lines().enumerate() {
            let _ = write!(frame, "{}{line}\x1b[K", if index > 0 { "\r\n" } else { "" });
        }
        frame.push_str("\x1b[J");
        self.last = Some(page);
        self.ui.write_ansi(&frame)
    }
}

impl Drop for AltScreen<'_> {
    fn drop(&mut self) {
        if let Some(page) = self.last.take() {
            // If the terminal was closed, there is nothing to restore.
            let _ = self.ui.write_ansi(LEAVE);
            IS_ENTERED.store(false, Ordering::Relaxed);
            let _ = self.ui.print(&page);
        }
    }
}

/// Returns the lines that fit, and a line with the number of the others.
fn cut(text: &str, height: usize, width: usize) -> String {
    let rows = |line: &str| visible(line).div_ceil(width.max(1)).max(1);
    let needed: usize = text.lines().map(rows).sum();
    if needed <= height {
        return text.to_owned();
    }
    let mut page = String::new();
    let (mut used, mut shown) = (0, 0);
    for line in text.lines() {
        used += rows(line);
        // One row is for the number of omitted lines.
        if used >= height {
            break;
        }
        page.push_str(line);
        page.push('\n');
        shown += 1;
    }
    let rest = text.lines().count() - shown;
    let _ = write!(page, "…and {rest} more line{}", if rest == 1 { "" } else { "s" });
    page
}

/// Returns how many columns a line takes: colours take none.
fn visible(line: &str) -> usize {
    let mut count = 0;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            // A sequence ends with the letter of its command.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_cut_to_the_terminal_with_a_note() {
        let text = (1..=10).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(cut(&text, 10, 80), text);
        assert_eq!(cut(&text, 4, 80), "1\n2\n3\n…and 7 more lines");
        assert_eq!(cut(&text, 9, 80).lines().count(), 9);
    }

    #[test]
    fn long_line_takes_several_rows_and_colors_take_none() {
        let long = "x".repeat(25);
        assert_eq!(cut(&format!("a\n{long}\nb"), 5, 10), format!("a\n{long}\nb"));
        assert_eq!(cut(&format!("a\n{long}\nb"), 4, 10), "a\n…and 2 more lines");
        assert_eq!(visible("\x1b[31mred\x1b[0m and \x1b[1mbold\x1b[0m"), 12);
    }
}
