//! Shortens logs of containers and messages of kubelets to one line.

use crate::printable::stripped;

/// The maximum number of characters of such a line. A status is read in a terminal.
const MAX: usize = 200;

/// Returns the last line of a log that has letters or digits, without colours and other escape sequences.
#[must_use]
pub fn last_line(log: &str) -> Option<String> {
    log.split(['\n', '\r'])
        .rev()
        .map(plain)
        .find(|line| line.contains(char::is_alphanumeric))
        .map(|line| cut(&line))
}

/// Cuts a text after [`MAX`] characters, and marks the cut.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Removes invisible characters, and leaves one space between words.
fn plain(line: &str) -> String {
    stripped(line).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the root cause in a message of the kubelet: without the calls that it went through, and without identifiers, which
/// differ with each attempt.
pub(super) fn root_cause(message: &str) -> String {
    let calls = ["unable to start container process: ", "desc = "];
    let inner = calls
        .iter()
        .find_map(|call| message.rsplit_once(call))
        .map_or(message, |(_, inner)| inner);
    let parts: Vec<&str> = inner.split(": ").filter(|part| !has_identifier(part)).collect();
    last_line(&parts.join(": ")).unwrap_or_else(|| last_line(inner).unwrap_or_default())
}

/// Whether one of the words looks like the identifier of a container or of a temporary folder.
fn has_identifier(part: &str) -> bool {
    let hex = |word: &str| word.len() >= 32 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(hex)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn last_line_with_text_is_returned() {
        for (log, words) in [
            ("starting\nError: no database\n\n", Some("Error: no database")),
            ("{\n  code: 'MODULE_NOT_FOUND'\n}\n", Some("code: 'MODULE_NOT_FOUND'")),
            ("\u{1b}[31;1mfatal:\u{1b}[0m disk\tfull\u{7}", Some("fatal: disk full")),
            (
                "\u{1b}]8;;http://a.example\u{1b}\\link\u{1b}]8;;\u{7} broken",
                Some("link broken"),
            ),
            ("10%\r100%\r", Some("100%")),
            ("a\u{202e}b", Some("ab")),
            ("\u{1b}[", None),
            (" \n \n", None),
        ] {
            assert_eq!(last_line(log).as_deref(), words, "{log:?}");
        }
    }

    proptest! {
        #[test]
        fn lines_are_short_and_have_no_control_characters(log in any::<String>()) {
            if let Some(words) = last_line(&log) {
                prop_assert!(words.chars().count() <= MAX + 1);
                prop_assert!(!words.chars().any(char::is_control));
                prop_assert_eq!(last_line(&words), Some(words));
            }
        }

        #[test]
        fn long_lines_are_cut_between_characters(line in "[ä€😀]{190,210}a") {
            let line = format!("a{line}");
            let words = last_line(&line).unwrap();
            prop_assert!(words == line || words.ends_with('…') && line.starts_with(words.trim_end_matches('…')));
        }
    }
}
