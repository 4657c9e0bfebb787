//! Edits the text of a manifest without changing anything else, comments included.
//!
//! It supports the style of `config/`: two spaces per level, and lists in the column of their key.

use std::ops::Range;

use anyhow::{Context as _, Result};

/// The lines of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    lines: Vec<String>,
}

impl Text {
    /// Splits a text into lines.
    pub fn new(text: &str) -> Self {
        Self {
            lines: text.lines().map(ToOwned::to_owned).collect(),
        }
    }

    /// Replaces the entry at `path`, such as `spec.containers.0.image`, by other lines.
    pub fn replace(&mut self, path: &str, lines: &str) -> Result<()> {
        let (range, indent) = self.find(path)?;
        self.lines.splice(range, indented(lines, indent));
        Ok(())
    }

    /// Inserts lines after the entry at `path`, with its indentation.
    pub fn insert_after(&mut self, path: &str, lines: &str) -> Result<()> {
        let (range, indent) = self.find(path)?;
        self.lines.splice(range.end..range.end, indented(lines, indent));
        Ok(())
    }

    /// Inserts lines at the end of the content of the entry at `path`.
    pub fn append(&mut self, path: &str, lines: &str) -> Result<()> {
        let (range, indent) = self.find(path)?;
        self.lines.splice(range.end..range.end, indented(lines, indent + 2));
        Ok(())
    }

    /// Inserts lines before and after the entry at `path`, without indentation, where YAML ignores them.
    pub fn wrap(&mut self, path: &str, before: &str, after: &str) -> Result<()> {
        let (range, _) = self.find(path)?;
        self.lines.insert(range.end, after.to_owned());
        self.lines
            .insert(range.start - self.comments_above(range.start), before.to_owned());
        Ok(())
    }

    /// Removes the entry at `path`, with the comment above it.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        let (range, _) = self.find(path)?;
        self.lines
            .drain(range.start - self.comments_above(range.start)..range.end);
        Ok(())
    }

    /// Replaces a word everywhere outside comments.
    pub fn substitute(&mut self, word: &str, by: &str) {
        for line in &mut self.lines {
            if !is_comment(line) {
                *line = line.replace(word, by);
            }
        }
    }

    /// Removes the comment at the beginning.
    pub fn without_heading(mut self) -> Self {
        let comments = self.lines.iter().take_while(|line| line.starts_with('#')).count();
        self.lines.drain(..comments);
        self
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Returns the lines of the entry at `path`, and the column of its key or dash.
    fn find(&self, path: &str) -> Result<(Range<usize>, usize)> {
        let mut within = 0..self.lines.len();
        let mut column = 0;
        for (level, part) in path.split('.').enumerate() {
            let found = if let Ok(index) = part.parse() {
                self.item(within, column, index)
            } else {
                // Top-level keys have no indentation; keys of an item follow its dash.
                column += if level == 0 { 0 } else { 2 };
                self.entry(within, column, part)
            };
            within = found.with_context(|| format!("there is no {path}"))?;
        }
        Ok((within, column))
    }

    fn comments_above(&self, line: usize) -> usize {
        let above = self.lines[..line].iter().rev();
        above.take_while(|line| is_comment(line)).count()
    }

    fn entry(&self, mut within: Range<usize>, column: usize, key: &str) -> Option<Range<usize>> {
        let end = within.end;
        let start = within.find(|&at| {
            let line = &self.lines[at];
            let rest = content(line).strip_prefix(key);
            line.len() - content(line).len() == column && rest.is_some_and(|rest| rest.starts_with(':'))
        })?;
        // A list is in the column of its key.
        let is_beyond = |line: &str| start_of(line) < column || start_of(line) == column && !is_item(line);
        Some(start..self.end(start + 1..end, is_beyond))
    }

    fn item(&self, within: Range<usize>, column: usize, index: usize) -> Option<Range<usize>> {
        let end = within.end;
        let begins = |line: &str| is_item(line) && start_of(line) == column;
        let start = within.filter(|&at| begins(&self.lines[at])).nth(index)?;
        Some(start..self.end(start + 1..end, |line| start_of(line) <= column))
    }

    /// Returns the end of a block: the first line outside of it, or the comment above that line. Lines of [`Self::wrap`]
    /// do not end a block.
    fn end(&self, lines: Range<usize>, is_beyond: impl Fn(&str) -> bool) -> usize {
        let start = lines.start;
        let is_written = |line: &str| !is_comment(line) && !line.trim().is_empty() && !line.starts_with("{{");
        let beyond = |&at: &usize| is_written(&self.lines[at]) && is_beyond(&self.lines[at]);
        let mut end = lines.clone().find(beyond).unwrap_or(lines.end);
        while end > start && !is_written(&self.lines[end - 1]) {
            end -= 1;
        }
        end
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

fn is_item(line: &str) -> bool {
    line.trim_start().starts_with("- ")
}

/// Returns the column of a line's key or dash.
fn start_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns a line without its indentation and dash.
fn content(line: &str) -> &str {
    let trimmed = line.trim_start();
    trimmed.strip_prefix("- ").unwrap_or(trimmed)
}

fn indented(lines: &str, indent: usize) -> Vec<String> {
    let deep = |line: &str| {
        if line.is_empty() {
            String::new()
        } else {
            format!("{:indent$}{line}", "")
        }
    };
    lines.lines().map(deep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Why it is there.
kind: Deployment
metadata:
  name: operator
spec:
  # One is enough.
  replicas: 1
  containers:
  - name: first
    image: a
  # The other.
  - name: second
    image: b
    ports:
    - port: 1
    - port: 2
    args: [x]
  last: true
";

    fn changed(change: impl FnOnce(&mut Text) -> Result<()>) -> String {
        let mut text = Text::new(TEXT);
        change(&mut text).unwrap();
        text.finish()
    }

    #[test]
    fn entry_is_replaced_with_its_content() {
        let new = changed(|text| text.replace("spec.containers.1.ports", "ports:\n  many"));
        assert_eq!(new, TEXT.replace("    - port: 1\n    - port: 2\n", "      many\n"));
        let new = changed(|text| text.replace("spec.containers", "containers: []"));
        assert!(
            new.ends_with("  replicas: 1\n  containers: []\n  last: true\n"),
            "{new}"
        );
    }

    #[test]
    fn lines_are_inserted_after_an_entry_or_at_its_end() {
        let new = changed(|text| text.insert_after("spec.containers.0.image", "more: 1"));
        assert!(new.contains("    image: a\n    more: 1\n  # The other.\n"), "{new}");
        let new = changed(|text| text.append("metadata", "labels:\n  a: b"));
        assert!(new.contains("  name: operator\n  labels:\n    a: b\nspec:\n"), "{new}");
    }

    #[test]
    fn item_is_removed_with_its_comment() {
        let new = changed(|text| text.remove("spec.containers.1"));
        assert!(new.ends_with("    image: a\n  last: true\n"), "{new}");
        let new = changed(|text| text.remove("spec.containers.1.ports.0"));
        assert!(new.contains("    ports:\n    - port: 2\n"), "{new}");
    }

    #[test]
    fn lines_are_inserted_around_an_item_and_its_comment() {
        let new = changed(|text| text.wrap("spec.containers.1.ports.1", "{", "}"));
        assert!(new.contains("    - port: 1\n{\n    - port: 2\n}\n    args"), "{new}");
        // The lines after it are still found.
        let new = changed(|text| {
            text.wrap("spec.containers.0", "{{ if }}", "{{ end }}")?;
            text.remove("spec.containers.1")
        });
        assert!(new.contains("    image: a\n{{ end }}\n  last: true\n"), "{new}");
        let new = changed(|text| text.wrap("spec.containers.1", "{", "}"));
        assert!(
            new.contains("image: a\n{\n  # The other.\n  - name") && new.ends_with("[x]\n}\n  last: true\n"),
            "{new}"
        );
    }

    #[test]
    fn words_in_comments_are_not_replaced() {
        let mut text = Text::new("# one\na: one # one\n");
        text.substitute("one", "two");
        assert_eq!(text.clone().finish(), "# one\na: two # two\n");
        assert_eq!(text.without_heading().finish(), "a: two # two\n");
    }

    #[test]
    fn missing_path_is_an_error() {
        let mut text = Text::new(TEXT);
        for path in [
            "spec.image",
            "metadata.replicas",
            "spec.containers.2",
            "spec.replicas.0",
        ] {
            let error = text.remove(path).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no {path}"));
        }
        assert_eq!(text.finish(), TEXT);
    }
}
