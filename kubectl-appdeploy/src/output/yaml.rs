//! Reads YAML of users and writes YAML for other tools.
//!
//! It quotes what a YAML 1.1 reader such as kubectl would take for something else (`on`, `12:30`) and reads
//! what kubectl reads (`0644` is octal, a key that stands twice is an error).

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// Returns one document.
pub fn write(value: &impl Serialize) -> Result<String> {
    // A folded line would be the same string, but could not be searched for.
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
    serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|source| Error::failed(format!("cannot read YAML: {}", why(&source))))
}

/// Returns one line about invalid YAML. The message of the library repeats the position as a drawing and has advice for
/// programmers.
pub fn why(error: &impl Display) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    match first.split_once(", set ") {
        Some((said, advice)) if advice.contains(" in Options") => said.to_owned(),
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use serde_json::json;

    #[test]
    fn strings_that_kubectl_would_misread_are_quoted() {
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
    fn unreadable_yaml_is_reported_without_advice_for_programmers() {
        let said = |text: &str| read(text).unwrap_err().text(&RenderOptions::default());
        let twice = said("kind: AppDeploy\nkind: PodSet\n");
        insta::assert_snapshot!(twice, @"error: cannot read YAML: line 2 column 1: duplicate mapping key: kind");
        insta::assert_snapshot!(said("a: [b"), @"error: cannot read YAML: line 1 column 4: unclosed bracket '['");
    }

    #[test]
    fn long_and_multi_line_strings_are_preserved() {
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
