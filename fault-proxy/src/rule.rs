//! Which requests, what to do with them, and whose turn it is.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::action::Action;
use crate::selection::Requests;

/// Which requests, what to do with them, and with how many.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub(crate) requests: Requests,
    pub(crate) action: Action,
    pub(crate) turn: Turn,
}

impl Rule {
    /// Returns a rule that does `action` with all of `requests`, as long as it stands.
    #[must_use]
    pub fn new(requests: Requests, action: Action) -> Self {
        Self {
            requests,
            action,
            turn: Turn::Every,
        }
    }

    /// Does it only with the `n`-th that matches, counted from 1 and from when the rule was added.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        Self {
            turn: Turn::Nth(n),
            ..self
        }
    }

    /// Does it only with the first `n` that match.
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Self {
            turn: Turn::First(n),
            ..self
        }
    }

    /// Does it with about `percent` of 100 that match, drawn by `seed`: with the same one, it is the turn of the same
    /// again.
    #[must_use]
    pub fn by_chance(self, percent: u8, seed: u64) -> Self {
        Self {
            turn: Turn::Chance { percent, seed },
            ..self
        }
    }
}

/// With which of the matching ones a rule does something: of the requests, and for [`Action::HideEvents`] and
/// [`Action::Replay`] of the events. [`Action::FreezeWatches`] is for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Every,
    Nth(usize),
    First(usize),
    Chance { percent: u8, seed: u64 },
}

impl Turn {
    /// Returns whether it is the turn of the `n`-th.
    pub(crate) fn is(self, n: usize) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(nth) => n == nth,
            Self::First(first) => n <= first,
            Self::Chance { percent, seed } => xxh3_64_with_seed(&n.to_le_bytes(), seed) % 100 < u64::from(percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(rule: &Rule) -> Vec<usize> {
        (1..=100).filter(|n| rule.turn.is(*n)).collect()
    }

    #[test]
    fn turns_are_counted_from_one() {
        let rule = Rule::new(Requests::all(), Action::Disconnect);
        assert_eq!(turns(&rule).len(), 100);
        assert_eq!(turns(&rule.clone().nth(3)), [3]);
        assert_eq!(turns(&rule.first(2)), [1, 2]);
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let rule = Rule::new(Requests::all(), Action::Disconnect);
        let drawn = turns(&rule.clone().by_chance(20, 7));
        assert_eq!(drawn, turns(&rule.clone().by_chance(20, 7)));
        assert_ne!(drawn, turns(&rule.clone().by_chance(20, 8)));
        assert!((5..=40).contains(&drawn.len()), "{drawn:?}");
        assert_eq!(turns(&rule.clone().by_chance(0, 7)), [0; 0]);
        assert_eq!(turns(&rule.by_chance(100, 7)).len(), 100);
    }
}
