//! Delays between writes that are repeated.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// Delays a write that is repeated because it fails, or because another client undoes it each time.
#[derive(Debug, Default)]
pub struct WriteLimit {
    /// Writes in a row, each soon after it was allowed.
    repeated: u32,
    last: Option<Instant>,
}

impl WriteLimit {
    /// Returns when the next write is allowed, unless it is now.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        self.last
            .map(|last| last + self.delay())
            .filter(|at| *at > Instant::now())
    }

    /// Records a write. If it comes soon after it was allowed, the next delay is longer.
    pub fn step(&mut self) {
        let is_soon = self.last.is_some_and(|last| last.elapsed() < 2 * self.delay());
        self.repeated = if is_soon { self.repeated.saturating_add(1) } else { 1 };
        self.last = Some(Instant::now());
    }

    fn delay(&self) -> Duration {
        BACKOFF.delay(self.repeated)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn write_that_is_undone_each_time_is_repeated_less_and_less_often() {
        let mut limit = WriteLimit::default();
        let begun = Instant::now();
        let mut times = 0;
        while begun.elapsed() < Duration::from_secs(600) {
            limit.step();
            times += 1;
            sleep_until(limit.not_before().unwrap()).await;
        }
        assert_eq!(times, 16);
    }

    #[tokio::test(start_paused = true)]
    async fn write_that_is_undone_now_and_then_is_repeated_immediately() {
        let mut limit = WriteLimit::default();
        for _ in 0..10 {
            assert_eq!(limit.not_before(), None);
            limit.step();
            advance(Duration::from_secs(2)).await;
        }
    }
}
