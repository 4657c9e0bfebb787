//! What an API server, or an admission webhook behind it, warns of: it stands in the headers of an answer, beside what was
//! asked for.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::WARNING;

/// Warnings that nobody has told yet. All copies are one.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    told: Vec<String>,
    new: Vec<String>,
}

impl Warnings {
    /// Takes in what the headers of an answer warn of. The same warning is told once.
    pub fn record(&self, headers: &HeaderMap) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = headers.get_all(WARNING).iter();
        for text in texts.filter_map(|value| text(value.to_str().ok()?)) {
            if !known.told.contains(&text) && !known.new.contains(&text) {
                known.new.push(text);
            }
        }
    }

    /// Returns those that nobody has told yet.
    pub fn take(&self) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = std::mem::take(&mut known.new);
        known.told.extend(new.iter().cloned());
        new
    }
}

/// Returns the text in a header like `299 - "text"`, with its quotes taken away, as RFC 7234 has it.
fn text(header: &str) -> Option<String> {
    let (_, quoted) = header.split_once('"')?;
    let mut text = String::new();
    let mut rest = quoted.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_told_once_and_without_its_quotes() {
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
        assert!(warnings.take().is_empty());
    }
}
