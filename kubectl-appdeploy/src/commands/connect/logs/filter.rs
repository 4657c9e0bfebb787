//! Selects lines that match `--include` and not `--exclude`.

use std::collections::HashMap;

use regex::bytes::{Regex, RegexBuilder};

use super::read::LogChunk;
use super::source;

/// The most memory of one compiled expression, in bytes.
const MAX_SIZE: usize = 1024 * 1024;

/// Reads a regular expression.
pub fn parse(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .size_limit(MAX_SIZE)
        .build()
        .map_err(|error| match &error {
            // Its text draws the expression over several lines; the last one says what is wrong.
            regex::Error::Syntax(text) => {
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
            _ => error.to_string(),
        })
}

/// Selects lines.
#[derive(Debug, Default)]
pub struct Filter {
    include: Vec<Regex>,
    exclude: Vec<Regex>,
    /// Whether lines begin with a time, which no expression is compared with.
    has_times: bool,
    /// For each log in the middle of a long line: whether its line is printed.
    inside: HashMap<String, bool>,
}

impl Filter {
    /// Selects lines that match one of `include`, if there are any, and none of `exclude`.
    pub fn new(include: Vec<Regex>, exclude: Vec<Regex>, has_times: bool) -> Self {
        Self {
            include,
            exclude,
            has_times,
            inside: HashMap::new(),
        }
    }

    /// Whether a piece of the log with this label is printed. The first piece of a long line decides for the others.
    pub fn takes(&mut self, label: &str, piece: &LogChunk) -> bool {
        if self.include.is_empty() && self.exclude.is_empty() {
            return true;
        }
        let known = self.inside.get(label).copied();
        let takes = known.unwrap_or_else(|| self.matches(&piece.bytes));
        if piece.ends {
            self.inside.remove(label);
        } else if known.is_none() {
            self.inside.insert(label.to_owned(), takes);
        }
        takes
    }

    fn matches(&self, line: &[u8]) -> bool {
        let time = source::time_of(line).filter(|_| self.has_times);
        let text = time.map_or(line, |(_, length)| &line[length..]);
        let any = |all: &[Regex]| all.iter().any(|one| one.is_match(text));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str], has_times: bool) -> Filter {
        let all = |texts: &[&str]| texts.iter().map(|text| parse(text).unwrap()).collect();
        Filter::new(all(include), all(exclude), has_times)
    }

    fn piece(text: &[u8], ends: bool) -> LogChunk {
        LogChunk {
            bytes: text.to_vec(),
            ends,
        }
    }

    fn takes(filter: &mut Filter, line: &[u8]) -> bool {
        filter.takes("a", &piece(line, true))
    }

    #[test]
    fn lines_match_one_of_include_and_none_of_exclude() {
        let mut both = filter(&["^GET", "(?i)error"], &["/healthz"], false);
        for (line, expected) in [
            ("GET /", true),
            ("POST /", false),
            ("an ERROR", true),
            ("GET /healthz", false),
        ] {
            assert_eq!(takes(&mut both, line.as_bytes()), expected, "{line}");
        }
        assert!(takes(&mut filter(&["x"], &[], false), b"\xff x"));
        assert!(takes(&mut filter(&[], &[], false), b"anything"));
    }

    #[test]
    fn time_before_a_line_is_not_compared() {
        let line = b"2026-01-01T00:00:01.1Z GET /";
        assert!(takes(&mut filter(&["^GET"], &[], true), line));
        assert!(!takes(&mut filter(&["^GET"], &[], false), line));
    }

    #[test]
    fn first_piece_decides_for_a_long_line() {
        let mut one = filter(&["start"], &[], false);
        let pieces = [
            (&b"start"[..], false),
            (b"middle", false),
            (b"end", true),
            (b"end", true),
        ];
        let taken = pieces.map(|(text, ends)| one.takes("a", &piece(text, ends)));
        assert_eq!(taken, [true, true, true, false]);
        // Another log in between decides for itself.
        assert!(one.takes("a", &piece(b"start", false)));
        assert!(!one.takes("b", &piece(b"other", true)));
        assert!(one.takes("a", &piece(b"rest", true)));
    }

    #[test]
    fn invalid_expression_is_one_line() {
        assert_eq!(parse("a(").unwrap_err(), "unclosed group");
        assert!(parse(r"\w{1000}{1000}").is_err());
    }
}
