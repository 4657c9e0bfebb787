//! The file that is edited. It is kept if the edit fails.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result, system_error};
use crate::output::yaml;

/// The comment above the object.
const HEAD: &str = "\
# Change what you like, save it, and leave the editor. To cancel, leave the file as it is.
# Lines that begin with # are not part of it.
#
";

/// A file for an editor.
pub struct File(PathBuf);

impl File {
    /// Makes an empty file that only this user can read.
    pub fn new(name: &str) -> Result<Self> {
        let made = tempfile::Builder::new()
            .prefix(&format!("{name}-"))
            .suffix(".yaml")
            .tempfile();
        let made = made.map_err(|source| failed("made", &source))?;
        let (_, path) = made.keep().map_err(|source| failed("made", &source.error))?;
        Ok(Self(path))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a text into it.
    pub fn write(&self, text: &str) -> Result<()> {
        std::fs::write(&self.0, text).map_err(|source| failed("written", &source))
    }

    /// Returns its content.
    pub fn read(&self) -> Result<String> {
        std::fs::read_to_string(&self.0).map_err(|source| failed("read", &source))
    }

    /// Whether it is unchanged.
    pub fn is_as_shown(&self, object: &Value) -> Result<bool> {
        Ok(self.read()? == page(&yaml::write(object)?, None))
    }

    /// Deletes it.
    pub fn remove(&self) {
        // A leftover file is harmless.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn failed(what: &str, source: &io::Error) -> Error {
    Error::failed(format!("the file to edit cannot be {what}: {}", system_error(source)))
}

/// Returns the content of the file: instructions, problems and the object.
pub fn page(object: &str, problem: Option<&str>) -> String {
    let mut text = HEAD.to_owned();
    for line in problem.into_iter().flat_map(str::lines) {
        let _ = writeln!(text, "# {line}");
    }
    if problem.is_some() {
        text.push_str("#\n");
    }
    text + object
}

/// Returns a text without the comment above the object.
pub fn without_head(text: &str) -> String {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.to_owned()
}

/// Whether the text is empty, which cancels the edit.
pub fn is_empty(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_printed_once_above_the_object() {
        let first = page("kind: A\n# own\n", Some("error: no\n  why:  it is wrong"));
        insta::assert_snapshot!(first, @r"
        # Change what you like, save it, and leave the editor. To cancel, leave the file as it is.
        # Lines that begin with # are not part of it.
        #
        # error: no
        #   why:  it is wrong
        #
        kind: A
        # own
        ");
        assert_eq!(without_head(&first), "kind: A\n# own\n");
        assert!(is_empty(&page("", None)) && !is_empty(&first));
    }
}
