//! Rules: which requests, which action, and for how many of them.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::action::Action;
use crate::selection::Requests;

/// A rule: which requests, which action, and for how many of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub(crate) requests: Requests,
    pub(crate) action: Action,
    pub(crate) turn: Turn,
}

impl Rule {
    /// Returns a rule that applies `action` to all of `requests`, as long as the rule exists.
    #[must_use]
    pub fn new(requests: Requests, action: Action) -> Self {
        Self {
            requests,
            action,
            turn: Turn::Every,
        }
    }

    /// Applies it only to the `n`-th match, counted from 1 and from when the rule was added.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        Self {
            turn: Turn::Nth(n),
            ..self
        }
    }

    /// Applies it only to `count` matches from the `n`-th on, counted from 1.
    #[must_use]
    pub fn from_nth(self, n: usize, count: usize) -> Self {
        Self {
            turn: Turn::From(n, count),
            ..self
        }
    }

    /// Applies it only to the first `n` matches.
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Self {
            turn: Turn::First(n),
            ..self
        }
    }

    /// Applies it to about `percent` of 100 matches, chosen by `seed`: the same seed chooses the same matches.
    #[must_use]
    pub fn by_chance(self, percent: u8, seed: u64) -> Self {
        Self {
            turn: Turn::Chance { percent, seed },
            ..self
        }
    }
}

/// To which of its matches a rule applies: of the requests, or for [`Action::HideEvents`] and [`Action::Replay`] of the
/// events. [`Action::FreezeWatches`] applies to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Every,
    Nth(usize),
    From(usize, usize),
    First(usize),
    Chance { percent: u8, seed: u64 },
}

impl Turn {
    /// Returns whether the rule applies to the `n`-th match.
    pub(crate) fn is(self, n: usize) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(nth) => n == nth,
            Self::From(first, count) => n >= first && n - first < count,
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
    fn matches_are_counted_from_one() {
        let rule = Rule::new(Requests::all(), Action::Disconnect);
        assert_eq!(turns(&rule).len(), 100);
        assert_eq!(turns(&rule.clone().nth(3)), [3]);
        assert_eq!(turns(&rule.clone().from_nth(3, 2)), [3, 4]);
        assert_eq!(turns(&rule.first(2)), [1, 2]);
    }

    #[test]
    fn same_seed_chooses_the_same() {
        let rule = Rule::new(Requests::all(), Action::Disconnect);
        let drawn = turns(&rule.clone().by_chance(20, 7));
        assert_eq!(drawn, turns(&rule.clone().by_chance(20, 7)));
        assert_ne!(drawn, turns(&rule.clone().by_chance(20, 8)));
        assert!((5..=40).contains(&drawn.len()), "{drawn:?}");
        assert_eq!(turns(&rule.clone().by_chance(0, 7)), [0; 0]);
        assert_eq!(turns(&rule.by_chance(100, 7)).len(), 100);
    }
}
