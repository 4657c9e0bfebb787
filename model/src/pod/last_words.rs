//! What an application said last, cut down to what fits into a sentence.

use crate::printable::stripped;

/// How many characters of it are told. A status is read in a terminal.
const MOST: usize = 200;

/// Returns the last line of a log that says something, without colours and whatever else a terminal would obey.
#[must_use]
pub fn last_words(log: &str) -> Option<String> {
    log.split(['\n', '\r'])
        .rev()
        .map(plain)
        .find(|line| line.contains(char::is_alphanumeric))
        .map(|line| cut(&line))
}

/// Cuts a text at a character, and shows it.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Removes what a terminal would not show, and leaves one space between words.
fn plain(line: &str) -> String {
    stripped(line).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_line_that_says_something() {
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
            assert_eq!(last_words(log).as_deref(), words, "{log:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_it_is_short_and_plain(log in any::<String>()) {
            if let Some(words) = last_words(&log) {
                prop_assert!(words.chars().count() <= MOST + 1);
                prop_assert!(!words.chars().any(char::is_control));
                prop_assert_eq!(last_words(&words), Some(words));
            }
        }

        #[test]
        fn what_is_long_is_cut_at_a_character(line in "[ä€😀]{190,210}a") {
            let line = format!("a{line}");
            let words = last_words(&line).unwrap();
            prop_assert!(words == line || words.ends_with('…') && line.starts_with(words.trim_end_matches('…')));
        }
    }
}
