//! A token bucket, as a pure state machine: all times are parameters.

use std::time::{Duration, Instant};

/// The first pause after an answer that calls are throttled, which doubles while they continue to be.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A token bucket, kept as the time at which it will be full (the generic cell rate algorithm).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// How long one token takes.
    interval: Duration,
    /// How long all tokens but one take.
    burst: Duration,
    full_at: Instant,
    paused_until: Option<Instant>,
    /// Consecutive pauses without an answer between them.
    pauses: u32,
}

impl Rate {
    pub(super) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self {
            interval,
            burst: interval * burst.max(1).saturating_sub(1),
            full_at: now,
            paused_until: None,
            pauses: 0,
        }
    }

    /// Takes a token, and returns how long to wait before it may be used.
    ///
    /// # Errors
    /// With that time if it is longer than `longest`. Then no token was taken.
    pub(super) fn reserve(&mut self, now: Instant, longest: Duration) -> Result<Duration, Duration> {
        let full_at = self.full_at.max(now);
        let wait = full_at.saturating_duration_since(now).saturating_sub(self.burst);
        if wait > longest {
            return Err(wait);
        }
        self.full_at = full_at + self.interval;
        Ok(wait)
    }

    /// Returns whether the server throttles.
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Pauses all calls because the server throttles, and empties the bucket. Returns for how long.
    pub(super) fn throttle(&mut self, retry_after: Option<Duration>, now: Instant) -> Duration {
        // Concurrent calls report the same throttling.
        let pause = match (retry_after, self.paused_until) {
            (None, Some(until)) if now < until => until - now,
            (None, _) => {
                let doubled = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(16));
                self.pauses = self.pauses.saturating_add(1);
                doubled.min(LONGEST_PAUSE)
            }
            (Some(retry_after), _) => retry_after,
        };
        let until = self.paused_until.map_or(now + pause, |until| until.max(now + pause));
        self.paused_until = Some(until);
        self.full_at = self.full_at.max(until + self.burst);
        until - now
    }

    /// Records an answer that was not throttled: the next pause is short again.
    pub(super) fn succeed(&mut self) {
        self.pauses = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn milliseconds(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn burst_is_immediate_and_the_rest_is_spaced() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 3, start);
        let waits: Vec<_> = (0..5).map(|_| rate.reserve(start, LONG).unwrap()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200].map(milliseconds));
        // Two tokens have come back, and two calls wait for one each.
        assert_eq!(rate.reserve(start + milliseconds(200), LONG), Ok(milliseconds(100)));
    }

    #[test]
    fn idle_time_fills_the_bucket_only_up_to_the_burst() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 2, start);
        let later = start + Duration::from_secs(3600);
        let waits: Vec<_> = (0..3).map(|_| rate.reserve(later, LONG).unwrap()).collect();
        assert_eq!(waits, [0, 0, 100].map(milliseconds));
    }

    #[test]
    fn call_that_would_wait_too_long_takes_no_token() {
        let start = Instant::now();
        let mut rate = Rate::new(1, 1, start);
        assert_eq!(rate.reserve(start, Duration::ZERO), Ok(Duration::ZERO));
        for _ in 0..3 {
            assert_eq!(rate.reserve(start, milliseconds(999)), Err(milliseconds(1000)));
        }
        assert_eq!(rate.reserve(start, milliseconds(1000)), Ok(milliseconds(1000)));
    }

    #[test]
    fn retry_after_is_honored_and_then_calls_are_spaced() {
        let start = Instant::now();
        let mut rate = Rate::new(10, 5, start);
        let pause = Duration::from_secs(7);
        assert_eq!(rate.throttle(Some(pause), start), pause);
        assert!(rate.is_paused(start));
        assert_eq!(rate.reserve(start, LONG), Ok(pause));
        assert_eq!(rate.reserve(start, LONG), Ok(pause + milliseconds(100)));
        // A shorter one does not end it earlier.
        assert_eq!(rate.throttle(Some(milliseconds(1)), start), pause);
        assert!(!rate.is_paused(start + pause));
    }

    #[test]
    fn pauses_without_retry_after_double_until_an_answer() {
        let mut now = Instant::now();
        let mut rate = Rate::new(10, 5, now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = rate.throttle(None, now);
            // The other calls of that moment do not lengthen it.
            assert_eq!(rate.throttle(None, now), pause);
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        rate.succeed();
        assert_eq!(rate.throttle(None, now), FIRST_PAUSE);
    }
}
