//! The screen at one moment.

use vt100::Cell;

/// A screen.
#[derive(Clone, Debug)]
pub struct Screen {
    rows: Vec<Vec<Cell>>,
    lines: Vec<String>,
    cursor: (usize, usize),
    hidden: bool,
}

impl Screen {
    pub(crate) fn of(screen: &vt100::Screen) -> Self {
        let (rows, columns) = screen.size();
        let row = |row: u16| (0..columns.get()).filter_map(move |column| screen.cell(row, column).cloned());
        let (line, column) = screen.cursor_position();
        Self {
            rows: (0..rows.get()).map(|number| row(number).collect()).collect(),
            lines: screen.rows(0, columns.get()).collect(),
            cursor: (line.into(), column.into()),
            hidden: screen.hide_cursor(),
        }
    }

    /// Returns the lines, without empty lines at the end and trailing spaces.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.trim_end());
        let text = lines.collect::<Vec<_>>().join("\n");
        text.trim_end_matches('\n').to_owned()
    }

    /// Returns the number of the first line that contains a text, from 0.
    #[must_use]
    pub fn line_of(&self, text: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.contains(text))
    }

    /// Returns the line and the column of the cursor, from 0.
    #[must_use]
    pub const fn cursor(&self) -> (usize, usize) {
        self.cursor
    }

    /// Returns whether the cursor is hidden.
    #[must_use]
    pub const fn is_cursor_hidden(&self) -> bool {
        self.hidden
    }

    /// Returns every cell, line by line, with its color.
    #[must_use]
    pub fn cells(&self) -> &[Vec<Cell>] {
        &self.rows
    }
}
