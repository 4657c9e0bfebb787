//! Delays between attempts.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

/// After so many failures each series has reached its longest delay.
const MAX_DOUBLINGS: u32 = 20;

/// A series of delays: each is twice as long as the one before, up to the longest.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    series: ExponentialBuilder,
    longest: Duration,
}

impl Backoff {
    /// Returns the series with this first and this longest delay.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        let series = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest);
        Self {
            series: series.without_max_times(),
            longest,
        }
    }

    /// Returns the longest delay.
    #[must_use]
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// Returns the delay after so many failures in a row, of which there is at least one.
    #[must_use]
    pub fn delay(self, failures: u32) -> Duration {
        let before = failures.saturating_sub(1).min(MAX_DOUBLINGS);
        let delay = self.series.build().nth(usize::try_from(before).unwrap_or_default());
        delay.unwrap_or(self.longest)
    }

    /// Like [`Backoff::delay`], shortened by up to a fifth at random, so that what failed together is not retried together.
    #[must_use]
    pub fn jittered(self, failures: u32) -> Duration {
        self.delay(failures).mul_f64(1.0 - 0.2 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(60));

    #[test]
    fn delays_double_up_to_the_longest() {
        let seconds: Vec<f64> = (1..=10).map(|n| BACKOFF.delay(n).as_secs_f64()).collect();
        assert_eq!(seconds, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(BACKOFF.delay(u32::MAX), BACKOFF.longest());
    }

    #[test]
    fn jitter_shortens_a_delay_by_a_fifth_at_most() {
        let delays: Vec<Duration> = (0..1000).map(|_| BACKOFF.jittered(3)).collect();
        let range = Duration::from_millis(800)..=Duration::from_secs(1);
        assert!(delays.iter().all(|delay| range.contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
    }
}
