//! Statistics of many values.

use serde::{Deserialize, Serialize};

/// The distribution of values, in their unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The number of values.
    pub count: usize,
}

impl Spread {
    /// Returns the distribution of values, which is zero for no values.
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

/// Returns the percentile of sorted values by the nearest rank.
fn ranked(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The same measurement in several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// The median; of an even number, the mean of the middle two.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
    /// The number of rounds.
    pub count: usize,
}

impl Rounds {
    /// Returns the statistics of several rounds, or `None` if there were none.
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

/// Returns a count as a floating-point number.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nothing here is counted beyond millions")]
pub fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
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
    fn percentiles_of_one_value_are_that_value() {
        let spread = Spread::of(vec![7.0]);
        assert_eq!((spread.p50, spread.p99, spread.max), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of(vec![]), Spread::default());
    }

    #[test]
    fn median_of_rounds_is_between_the_extremes() {
        let rounds = |values: &[f64]| Rounds::of(values.to_vec()).map(|of| (of.least, of.median, of.most));
        assert_eq!(rounds(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(rounds(&[4.0, 1.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(rounds(&[]), None);
    }
}
