//! Tables as kubectl prints them: no borders, three spaces between columns, upper-case headers.

use comfy_table::{ColumnConstraint, ContentArrangement, Table as Layout, Width, presets};
use dialoguer::console::truncate_str;

use crate::terminal::ui::{Style, clean, columns, paint, wrap};

/// The number of spaces between two columns.
const GAP: usize = 3;

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Option<Style>,
}

impl Cell {
    /// Returns a value with a meaning that has a colour.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            style: Some(style),
            ..Self::from(text.into())
        }
    }

    /// Returns the value behind the branches of a tree.
    #[must_use]
    pub fn prefixed(mut self, branches: &str) -> Self {
        self.text.insert_str(0, branches);
        self
    }

    /// Returns the value with another meaning.
    #[must_use]
    pub const fn with(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        // An empty value would shift the next columns for scripts that split at spaces.
        let text = if text.is_empty() {
            "<none>".to_owned()
        } else {
            clean(&text)
        };
        Self { text, style: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// A table before it is laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    floor: Vec<usize>,
}

impl Table {
    /// Returns an empty table.
    pub const fn new(header: Vec<&'static str>) -> Self {
        Self {
            header,
            rows: Vec::new(),
            floor: Vec::new(),
        }
    }

    /// Adds a row, as long as the header.
    pub fn row(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Leaves the header out, for scripts.
    #[must_use]
    pub fn without_header(mut self) -> Self {
        self.header.clear();
        self
    }

    /// Shortens the values of one column until the table fits the width. Nothing is ever cut without a width.
    #[must_use]
    pub fn fit(mut self, column: &str, width: Option<usize>) -> Self {
        let (Some(width), Some(index)) = (width, self.header.iter().position(|h| *h == column)) else {
            return self;
        };
        let widths = self.floored();
        let total = total(&widths);
        let room = widths[index].saturating_sub(total.saturating_sub(width)).max(12);
        if let Some(floor) = self.floor.get_mut(index) {
            *floor = room.min(*floor);
        }
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(index)) {
            cell.text = truncate_str(&cell.text, room, "…").into_owned();
        }
        self
    }

    /// Shortens the values of one column until the table fits the width, or leaves the column out if that is not enough.
    #[must_use]
    pub fn fit_or_omit(self, column: &str, width: Option<usize>) -> Self {
        let fitted = self.clone().fit(column, width);
        if width.is_none_or(|width| total(&fitted.floored()) <= width) {
            return fitted;
        }
        self.without(column)
    }

    /// Whether no line is longer than the width.
    pub fn fits(&self, width: Option<usize>) -> bool {
        width.is_none_or(|width| total(&self.widths()) <= width)
    }

    /// Leaves a column out.
    #[must_use]
    pub fn without(mut self, column: &str) -> Self {
        if let Some(index) = self.header.iter().position(|h| *h == column) {
            self.header.remove(index);
            if index < self.floor.len() {
                self.floor.remove(index);
            }
            for row in &mut self.rows {
                row.remove(index);
            }
        }
        self
    }

    /// Uses at least the column widths of earlier rows, so that the rows of a watch are aligned.
    #[must_use]
    pub fn below(mut self, widths: &mut Vec<usize>) -> Self {
        let own = self.widths();
        widths.resize(widths.len().max(own.len()), 0);
        for (width, own) in widths.iter_mut().zip(own) {
            *width = own.max(*width);
        }
        self.floor.clone_from(widths);
        self
    }

    fn widths(&self) -> Vec<usize> {
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| columns(&cell.text)).collect());
        rows.chain([self.header.iter().map(|h| h.len()).collect()]).fold(
            Vec::new(),
            |mut widest: Vec<usize>, row: Vec<usize>| {
                widest.resize(widest.len().max(row.len()), 0);
                for (index, width) in row.into_iter().enumerate() {
                    widest[index] = widest[index].max(width);
                }
                widest
            },
        )
    }

    /// The widths, at least those of earlier rows.
    fn floored(&self) -> Vec<usize> {
        let mut widths = self.widths();
        for (width, floor) in widths.iter_mut().zip(&self.floor) {
            *width = (*width).max(*floor);
        }
        widths
    }

    /// Returns the lines.
    pub fn text(&self, color: bool) -> String {
        self.layout(color).trim_fmt()
    }

    /// Returns the lines, none longer than the width unless a word is. Values of the last column are wrapped within the column, or
    /// below the row if the column is too narrow for a sentence or for one of the words, which is never split.
    pub fn wrapped(mut self, color: bool, width: Option<usize>) -> String {
        /// Fewer columns are no room for a sentence.
        const NARROW: usize = 30;
        const INDENT: usize = 4;
        let Some(width) = width.filter(|width| !self.fits(Some(*width))) else {
            return self.text(color);
        };
        let widths = self.widths();
        let begin: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
        if width.saturating_sub(begin) >= self.longest_word().max(NARROW) {
            let mut layout = self.layout(color);
            layout
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(saturating(width));
            if let Some(last) = layout.column_iter_mut().last() {
                last.remove_constraint();
            }
            return layout.trim_fmt();
        }
        self.header.pop();
        let last: Vec<Option<Cell>> = self.rows.iter_mut().map(Vec::pop).collect();
        let text = self.text(color);
        let mut lines = text.lines().map(str::to_owned);
        let mut written: Vec<String> = (!self.header.is_empty())
            .then(|| lines.next())
            .flatten()
            .into_iter()
            .collect();
        for (line, cell) in lines.zip(last) {
            written.push(line);
            let text = cell.map(|cell| cell.text).unwrap_or_default();
            let parts = wrap(&text, Some(width.saturating_sub(INDENT)));
            written.extend(parts.into_iter().map(|part| format!("{:INDENT$}{part}", "")));
        }
        written.join("\n")
    }

    /// Returns the number of columns of the longest word in the last column.
    fn longest_word(&self) -> usize {
        let last = self.rows.iter().filter_map(|row| row.last());
        let words = last.flat_map(|cell| cell.text.split_whitespace());
        words.map(columns).max().unwrap_or_default()
    }

    /// Returns the table for the library that lays it out.
    fn layout(&self, color: bool) -> Layout {
        let painted = |cell: &Cell| match cell.style {
            Some(style) => paint(color, style, &cell.text),
            None => cell.text.clone(),
        };
        let mut layout = Layout::new();
        layout.load_style(presets::NOTHING);
        if !self.header.is_empty() {
            layout.set_header(&self.header);
        }
        layout.add_rows(self.rows.iter().map(|row| row.iter().map(painted)));
        let widths = self.floored();
        for (index, column) in layout.column_iter_mut().enumerate() {
            let gap = if index + 1 == widths.len() { 0 } else { GAP };
            column.set_padding((0, saturating(gap)));
            let width = Width::Fixed(saturating(widths[index] + gap));
            column.set_constraint(ColumnConstraint::Absolute(width));
        }
        layout
    }
}

/// Returns the width of a line whose columns have these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns a number of columns as the layout wants it.
fn saturating(columns: usize) -> u16 {
    u16::try_from(columns).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(vec!["NAME", "READY", "URL", "AGE"]);
        table.row(vec![
            "shop".into(),
            Cell::styled("3/3", Style::Good),
            "http://shop.default".into(),
            "5d".into(),
        ]);
        table.row(vec![
            "long-name".into(),
            Cell::styled("0/2", Style::Bad),
            "".into(),
            "2m".into(),
        ]);
        table
    }

    #[test]
    fn table_looks_like_kubectl() {
        insta::assert_snapshot!(sample().text(false), @r"
        NAME        READY   URL                   AGE
        shop        3/3     http://shop.default   5d
        long-name   0/2     <none>                2m
        ");
    }

    #[test]
    fn wide_characters_are_padded_and_cut_by_columns() {
        let mut table = Table::new(vec!["NAME", "URL"]);
        table.row(vec!["日本".into(), "http://日本.example.com".into()]);
        table.row(vec!["shop".into(), "http://shop.default".into()]);
        insta::assert_snapshot!(table.fit("URL", Some(22)).text(false), @r"
        NAME   URL
        日本   http://日本.ex…
        shop   http://shop.de…
        ");
    }

    #[test]
    fn colour_changes_no_column() {
        let plain: String = sample().text(true);
        let stripped = plain
            .replace("\x1b[32m", "")
            .replace("\x1b[31m", "")
            .replace("\x1b[0m", "");
        assert_ne!(plain, stripped);
        assert_eq!(stripped, sample().text(false));
    }

    #[test]
    fn one_column_is_cut_on_a_narrow_terminal() {
        insta::assert_snapshot!(sample().fit("URL", Some(40)).text(false), @r"
        NAME        READY   URL              AGE
        shop        3/3     http://shop.d…   5d
        long-name   0/2     <none>           2m
        ");
    }

    #[test]
    fn column_is_omitted_where_cutting_it_is_not_enough() {
        let cut = sample().fit("URL", Some(40)).text(false);
        assert_eq!(sample().fit_or_omit("URL", Some(40)).text(false), cut);
        let mut widths = Vec::new();
        let below = sample().below(&mut widths).fit_or_omit("URL", Some(30));
        insta::assert_snapshot!(below.text(false), @r"
        NAME        READY   AGE
        shop        3/3     5d
        long-name   0/2     2m
        ");
        let mut later = Table::new(vec!["NAME", "READY", "URL", "AGE"]);
        later.row(vec!["a".into(), "1/1".into(), "http://a.b".into(), "1m".into()]);
        let later = later.below(&mut widths).fit_or_omit("URL", Some(30));
        assert_eq!(later.without_header().text(false), "a           1/1     1m");
    }

    #[test]
    fn later_rows_are_aligned_with_earlier_ones() {
        let mut widths = Vec::new();
        let mut text = sample().below(&mut widths).fit("URL", Some(40)).text(false);
        let mut later = Table::new(vec!["NAME", "READY", "URL", "AGE"]);
        later.row(vec!["a".into(), "1/1".into(), "http://a.b".into(), "1m".into()]);
        later.row(vec![
            "b".into(),
            "1/1".into(),
            "http://b.somewhere.else".into(),
            "1m".into(),
        ]);
        let later = later.below(&mut widths).fit("URL", Some(40)).without_header();
        text.push('\n');
        text.push_str(&later.text(false));
        insta::assert_snapshot!(text, @r"
        NAME        READY   URL              AGE
        shop        3/3     http://shop.d…   5d
        long-name   0/2     <none>           2m
        a           1/1     http://a.b       1m
        b           1/1     http://b.some…   1m
        ");
    }

    #[test]
    fn column_can_be_omitted() {
        assert!(sample().fits(Some(45)) && !sample().fits(Some(44)));
        insta::assert_snapshot!(sample().without("URL").text(false), @r"
        NAME        READY   AGE
        shop        3/3     5d
        long-name   0/2     2m
        ");
    }

    #[test]
    fn last_column_is_wrapped_below_itself_or_below_the_row() {
        let mut table = Table::new(vec!["TYPE", "MESSAGE"]);
        for (kind, message) in [
            ("Ready", "two pods of three are ready, and one is on its way"),
            ("Exposed", "yes"),
        ] {
            table.row(vec![Cell::styled(kind, Style::Good), message.into()]);
        }
        assert_eq!(table.clone().wrapped(false, None), table.text(false));
        insta::assert_snapshot!(table.clone().wrapped(false, Some(42)), @r"
        TYPE      MESSAGE
        Ready     two pods of three are ready, and
                  one is on its way
        Exposed   yes
        ");
        insta::assert_snapshot!(table.clone().wrapped(false, Some(30)), @r"
        TYPE
        Ready
            two pods of three are
            ready, and one is on its
            way
        Exposed
            yes
        ");
        let mut long = Table::new(vec!["TYPE", "MESSAGE"]);
        let message = "restarting container logger in pod workers-0_default(31c2107b-70eb-4391)";
        long.row(vec!["Warning".into(), message.into()]);
        insta::assert_snapshot!(long.wrapped(false, Some(42)), @r"
        TYPE
        Warning
            restarting container logger in pod
            workers-0_default(31c2107b-70eb-4391)
        ");
        let plain = table
            .clone()
            .wrapped(true, Some(42))
            .replace("\x1b[32m", "")
            .replace("\x1b[0m", "");
        assert_eq!(plain, table.wrapped(false, Some(42)));
    }

    #[test]
    fn escape_sequences_are_removed() {
        let mut table = Table::new(vec!["NAME"]);
        table.row(vec!["a\x1b[2Jb\nc".into()]);
        assert_eq!(table.text(false), "NAME\na [2Jb c");
    }
}
