//! A line of a log with the pod that wrote it.

use std::collections::HashMap;

/// Colours of pods, in turn. Not red: that means that something is wrong.
const COLORS: [&str; 5] = ["36", "35", "34", "33", "32"];

/// What stands before a line.
pub struct Prefixes {
    shown: bool,
    color: bool,
    known: HashMap<String, usize>,
}

impl Prefixes {
    /// Makes them, shown or not, in colour or not.
    pub fn new(shown: bool, color: bool) -> Self {
        Self {
            shown,
            color,
            known: HashMap::new(),
        }
    }

    /// Shows them from now on.
    pub const fn show(&mut self) {
        self.shown = true;
    }

    /// Returns a line as it is printed. What an application writes is its own: colours in it stay.
    pub fn line(&mut self, pod: &str, line: &str) -> String {
        if !self.shown {
            return line.to_owned();
        }
        let next = self.known.len();
        let number = *self.known.entry(pod.to_owned()).or_insert(next);
        if self.color {
            format!("\x1b[{}m{pod}\x1b[0m | {line}", COLORS[number % COLORS.len()])
        } else {
            format!("{pod} | {line}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_keeps_its_colour() {
        let mut prefixes = Prefixes::new(true, true);
        let first = prefixes.line("a", "x");
        assert_eq!(first, "\x1b[36ma\x1b[0m | x");
        assert_eq!(prefixes.line("b", "x"), "\x1b[35mb\x1b[0m | x");
        assert_eq!(prefixes.line("a", "x"), first);
    }

    #[test]
    fn one_pod_needs_no_name() {
        let mut prefixes = Prefixes::new(false, true);
        assert_eq!(prefixes.line("a", "x"), "x");
        prefixes.show();
        assert!(prefixes.line("a", "x").contains("a\x1b[0m | x"));
    }
}
