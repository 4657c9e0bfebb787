//! A line of a log with the pod that wrote it.

use std::collections::HashMap;

use model::printable::{stripped, with_colors};

use super::read::LogChunk;

/// Colours of pods, in turn. Not red: that means that something is wrong.
const COLORS: [&str; 5] = ["36", "35", "34", "33", "32"];

/// The maximum number of pods with a remembered color.
const MAX_KNOWN: usize = 1000;

/// How lines of logs are printed.
pub struct Prefixes {
    shown: bool,
    color: bool,
    is_terminal: bool,
    known: HashMap<String, usize>,
}

impl Prefixes {
    /// Prints them with or without the pod, in colour or not, to a terminal or not.
    pub fn new(shown: bool, color: bool, is_terminal: bool) -> Self {
        Self {
            shown,
            color,
            is_terminal,
            known: HashMap::new(),
        }
    }

    /// Shows the pod from now on.
    pub const fn show(&mut self) {
        self.shown = true;
    }

    /// Formats a line. On a terminal, control characters except colors are removed. A pipe or a file gets the unchanged bytes, as
    /// from kubectl.
    pub fn line(&mut self, pod: &str, piece: &LogChunk) -> Vec<u8> {
        let mut line = Vec::new();
        if self.shown {
            if self.known.len() >= MAX_KNOWN && !self.known.contains_key(pod) {
                self.known.clear();
            }
            let next = self.known.len();
            let number = *self.known.entry(pod.to_owned()).or_insert(next);
            let prefix = if self.color {
                format!("\x1b[{}m{pod}\x1b[0m | ", COLORS[number % COLORS.len()])
            } else {
                format!("{pod} | ")
            };
            line.extend_from_slice(prefix.as_bytes());
        }
        if self.is_terminal {
            let text = String::from_utf8_lossy(&piece.bytes);
            let text = if self.color {
                with_colors(&text)
            } else {
                stripped(&text)
            };
            line.extend_from_slice(text.as_bytes());
        } else {
            line.extend_from_slice(&piece.bytes);
        }
        // Parts of lines of several pods are not to run into each other.
        if piece.ends || self.shown {
            line.push(b'\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &[u8]) -> LogChunk {
        LogChunk {
            bytes: text.to_vec(),
            ends: true,
        }
    }

    fn text(prefixes: &mut Prefixes, pod: &str, line: &[u8]) -> String {
        String::from_utf8(prefixes.line(pod, &piece(line))).unwrap()
    }

    #[test]
    fn pod_keeps_its_color() {
        let mut prefixes = Prefixes::new(true, true, true);
        let first = text(&mut prefixes, "a", b"x");
        assert_eq!(first, "\x1b[36ma\x1b[0m | x\n");
        assert_eq!(text(&mut prefixes, "b", b"x"), "\x1b[35mb\x1b[0m | x\n");
        assert_eq!(text(&mut prefixes, "a", b"x"), first);
    }

    #[test]
    fn single_pod_has_no_prefix() {
        let mut prefixes = Prefixes::new(false, false, false);
        assert_eq!(text(&mut prefixes, "a", b"x"), "x\n");
        let part = LogChunk {
            ends: false,
            ..piece(b"x")
        };
        assert_eq!(prefixes.line("a", &part), b"x");
        prefixes.show();
        assert_eq!(prefixes.line("a", &part), b"a | x\n");
    }

    #[test]
    fn control_sequences_are_removed_on_a_terminal_and_kept_in_a_pipe() {
        let hostile = b"caf\xe9 \x1b[31mred \x1b]0;title\x07\x1b[2J\xe2\x80\xaeabc\xe2\x80\x8b\r50%";
        let printed = |color, is_terminal| Prefixes::new(false, color, is_terminal).line("a", &piece(hostile));
        assert_eq!(printed(false, false), [hostile, &b"\n"[..]].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!(text(printed(false, true)), "caf\u{fffd} red abc 50%\n");
        assert_eq!(text(printed(true, true)), "caf\u{fffd} \x1b[31mred abc 50%\x1b[0m\n");
    }
}
