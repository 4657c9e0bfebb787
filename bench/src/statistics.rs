//! A few numbers for many.

use serde::{Deserialize, Serialize};

/// How values are spread. All are of the values' unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the values are not above it.
    pub p50: f64,
    /// 99 of 100 values are not above it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// How many values there are.
    pub count: usize,
}

impl Spread {
    /// Returns the spread of values, which is zero of none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            p50: ranked(&values, 50),
            p99: ranked(&values, 99),
            max: values.last().copied().unwrap_or_default(),
            count: values.len(),
        }
    }
}

/// Returns the value at or below which so many of a hundred sorted values lie (the nearest rank).
fn ranked(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// What the same measurement gave in several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// The one in the middle; of an even number, between the two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// How many rounds there were.
    pub count: usize,
}

impl Rounds {
    /// Returns what several rounds gave, or nothing if there was none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self {
            median: f64::midpoint(low, high),
            least,
            most,
            count: values.len(),
        })
    }
}

/// Returns a count as a number that can be divided.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nothing here is counted beyond millions")]
pub fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_values_that_were_there() {
        let values = (1..=200).rev().map(number).collect();
        let spread = Spread {
            p50: 100.0,
            p99: 198.0,
            max: 200.0,
            count: 200,
        };
        assert_eq!(Spread::of(values), spread);
    }

    #[test]
    fn of_one_value_all_are_that() {
        let spread = Spread::of(vec![7.0]);
        assert_eq!((spread.p50, spread.p99, spread.max), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of(vec![]), Spread::default());
    }

    #[test]
    fn the_median_of_rounds_lies_between_the_extremes() {
        let rounds = |values: &[f64]| Rounds::of(values.to_vec()).map(|of| (of.least, of.median, of.most));
        assert_eq!(rounds(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(rounds(&[4.0, 1.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(rounds(&[]), None);
    }
}
