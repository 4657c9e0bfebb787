//! Confirmation of changes that can't easily be undone.

use std::io::{self, BufRead, IsTerminal, Write};

/// Whether to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Continue without asking.
    Given,
    /// Ask on the terminal.
    Ask,
    /// There is no terminal, and `YES=1` is not set.
    Refused,
}

/// What happens without a terminal and without `YES=1`, as in CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unattended {
    /// Continue: only this machine's own cluster is changed.
    Continue,
    /// Stop: the change may affect other people.
    Stop,
}

impl Consent {
    /// Decides from whether `YES=1` is set and whether there is a terminal.
    #[must_use]
    pub const fn decide(yes: bool, terminal: bool, unattended: Unattended) -> Self {
        match (yes, terminal, unattended) {
            (true, _, _) | (false, false, Unattended::Continue) => Self::Given,
            (false, true, _) => Self::Ask,
            (false, false, Unattended::Stop) => Self::Refused,
        }
    }
}

/// Asks `question` on the terminal, and returns whether to continue. `YES=1` in the environment answers yes.
///
/// # Errors
/// When there is no terminal and `unattended` is [`Unattended::Stop`], or the terminal can't be used.
pub fn ask(question: &str, unattended: Unattended) -> io::Result<bool> {
    let yes = std::env::var_os("YES").is_some_and(|value| value == "1");
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    match Consent::decide(yes, terminal, unattended) {
        Consent::Given => Ok(true),
        Consent::Refused => Err(io::Error::other(format!(
            "{question} There is no terminal to answer on; YES=1 answers yes"
        ))),
        Consent::Ask => {
            let mut err = io::stderr();
            write!(err, "{question} [y/N] ")?;
            err.flush()?;
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer)?;
            Ok(is_yes(&answer))
        }
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_is_asked_unless_yes_is_set() {
        for unattended in [Unattended::Continue, Unattended::Stop] {
            assert_eq!(Consent::decide(false, true, unattended), Consent::Ask);
            assert_eq!(Consent::decide(true, true, unattended), Consent::Given);
            assert_eq!(Consent::decide(true, false, unattended), Consent::Given);
        }
    }

    #[test]
    fn without_a_terminal_only_the_own_cluster_is_changed() {
        assert_eq!(Consent::decide(false, false, Unattended::Continue), Consent::Given);
        assert_eq!(Consent::decide(false, false, Unattended::Stop), Consent::Refused);
    }

    #[test]
    fn only_y_and_yes_are_yes() {
        assert!(is_yes("y\n") && is_yes("Yes\n"));
        assert!(!is_yes("\n") && !is_yes("") && !is_yes("n\n") && !is_yes("yesterday\n"));
    }
}
