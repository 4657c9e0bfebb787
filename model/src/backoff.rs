//! How long a failing object waits before it is tried again.

use std::time::Duration;

/// The longest wait. A person who has removed the obstacle waits at most this long.
pub const MAX: Duration = Duration::from_secs(60);

const FIRST: Duration = Duration::from_millis(250);

/// Returns the wait after so many failures in a row: doubling from a quarter second up to [`MAX`], shortened by
/// up to a fifth, so that objects that failed together do not come back together. `dice` is uniform in 0..1.
#[must_use]
pub fn delay(failures: u32, dice: f64) -> Duration {
    let doubled = FIRST.saturating_mul(
        1_u32
            .checked_shl(failures.saturating_sub(1).min(16))
            .unwrap_or(u32::MAX),
    );
    doubled.min(MAX).mul_f64(1.0 - 0.2 * dice.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_a_minute() {
        let seconds: Vec<f64> = (1..=10).map(|n| delay(n, 0.0).as_secs_f64()).collect();
        assert_eq!(seconds, [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(delay(u32::MAX, 0.0), MAX);
    }

    #[test]
    fn is_spread_by_a_fifth_at_most() {
        assert_eq!(delay(3, 1.0), Duration::from_millis(800));
    }
}
