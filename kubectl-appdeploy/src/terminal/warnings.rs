//! Warnings of the API server and of admission webhooks, from the headers of responses.

use std::str::Chars;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::WARNING;

/// Warnings that are not printed yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    told: Vec<String>,
    new: Vec<String>,
}

impl Warnings {
    /// Records the warnings in the headers of a response. The same warning is printed once.
    pub fn record(&self, headers: &HeaderMap) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let values = headers.get_all(WARNING).iter();
        for text in values.flat_map(|value| texts(&String::from_utf8_lossy(value.as_bytes()))) {
            known.add(text);
        }
    }

    /// Records a warning of the plugin. If a webhook sends the same one, it is printed once.
    pub fn add(&self, text: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.add(text);
    }

    /// Returns the warnings that are not printed yet.
    pub fn take(&self) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = std::mem::take(&mut known.new);
        known.told.extend(new.iter().cloned());
        new
    }
}

impl Known {
    fn add(&mut self, text: String) {
        if !self.told.contains(&text) && !self.new.contains(&text) {
            self.new.push(text);
        }
    }
}

/// Returns the texts in a header like `299 - "text", 299 - "text" "date"` (RFC 7234), without their quotes.
fn texts(header: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = header.chars();
    // Whether the next quoted text is a warning and not a date.
    let mut is_text = true;
    while let Some(c) = rest.next() {
        match c {
            ',' => is_text = true,
            '"' => {
                let text = quoted(&mut rest);
                if is_text && !text.is_empty() {
                    all.push(text);
                }
                is_text = false;
            }
            _ => {}
        }
    }
    all
}

/// Reads until the quotes end.
fn quoted(rest: &mut Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_is_printed_once_and_without_its_quotes() {
        let warnings = Warnings::default();
        let mut headers = HeaderMap::new();
        for value in [
            r#"299 - "the host \"shop\" is odd""#,
            r#"299 - "b\\c""#,
            "299",
            r#"299 - """#,
        ] {
            headers.append(WARNING, value.parse().unwrap());
        }
        warnings.record(&headers);
        assert_eq!(warnings.take(), [r#"the host "shop" is odd"#, r"b\c"]);
        warnings.record(&headers);
        warnings.add(r"b\c".to_owned());
        assert!(warnings.take().is_empty());
    }

    #[test]
    fn warnings_with_unusual_characters_are_read() {
        let warnings = Warnings::default();
        let mut headers = HeaderMap::new();
        let joined = "299 - \"größer, als gut ist\" \"Sun, 22 Nov 2026 02:00:00 GMT\", 299 - \"two\"";
        headers.append(WARNING, http::HeaderValue::from_bytes(joined.as_bytes()).unwrap());
        warnings.record(&headers);
        assert_eq!(warnings.take(), ["größer, als gut ist", "two"]);
    }
}
