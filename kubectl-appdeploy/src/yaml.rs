//! The only door through which YAML comes in from a person and goes out to other tools.
//!
//! It quotes what a YAML 1.1 reader such as kubectl would take for something else (`on`, `12:30`) and reads
//! what kubectl reads (`0644` is octal, a key that stands twice is an error).

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// Returns one document.
pub fn write(value: &impl Serialize) -> Result<String> {
    // A folded line would be the same string, but nobody could search for it.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|source| Error::failed(format!("cannot write YAML: {source}")))
}

/// Returns several documents, separated as `kubectl apply -f -` reads them.
pub fn write_all(values: &[Value]) -> Result<String> {
    let documents = values.iter().map(write).collect::<Result<Vec<_>>>()?;
    Ok(documents.join("---\n"))
}

/// Returns the documents in a text.
pub fn read(text: &str) -> Result<Vec<Value>> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|source| {
        // What follows is the place once more, drawn.
        let text = source.to_string();
        let first = text.lines().next().unwrap_or_default();
        Error::failed(format!(
            "cannot read YAML: {}",
            first.strip_prefix("error: ").unwrap_or(first)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_kubectl_would_misread_is_quoted() {
        let words = [
            "on", "yes", "NO", "y", "12:30", "1_000", "0644", "null", "~", "1e3", "", " x", "a: b", "#c",
        ];
        let text = write(&words).unwrap();
        insta::assert_snapshot!(text.trim_end(), @r##"
        - "on"
        - "yes"
        - "NO"
        - "y"
        - "12:30"
        - "1_000"
        - "0644"
        - "null"
        - "~"
        - "1e3"
        - ""
        - " x"
        - "a: b"
        - "#c"
        "##);
        assert_eq!(read(&text).unwrap(), vec![json!(words)]);
    }

    #[test]
    fn long_and_multi_line_strings_come_back_as_they_were() {
        for text in [
            "word ".repeat(100),
            "a\nb\n".to_owned(),
            "a\n\n".to_owned(),
            "  a\n b".to_owned(),
            "\n".to_owned(),
            "tab\there".to_owned(),
        ] {
            let written = write(&json!({"k": text})).unwrap();
            assert_eq!(read(&written).unwrap(), vec![json!({"k": text})], "{written}");
        }
    }
}
