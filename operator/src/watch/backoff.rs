//! Delays before a failed watch is started again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;

/// Begins with little: an API server that has just been given a CRD refuses the first request of each kind, and answers the next.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(30));

/// A watch that ran for this long has worked: its end is a new failure. A watch without events does not report that it works.
const WORKED: Duration = Duration::from_secs(60);

/// Counts the failures of a watch in a row.
#[derive(Debug)]
pub(super) struct WatchBackoff {
    failures: u32,
    begun: Instant,
}

impl WatchBackoff {
    /// Begins the first attempt.
    pub(super) fn new() -> Self {
        Self {
            failures: 0,
            begun: Instant::now(),
        }
    }

    /// Records that the watch works.
    pub(super) const fn worked(&mut self) {
        self.failures = 0;
    }

    /// Records a failure, and waits until the next attempt is due.
    pub(super) async fn failed(&mut self) {
        if self.begun.elapsed() > WORKED {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        sleep(BACKOFF.jittered(self.failures)).await;
        self.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    async fn delay(backoff: &mut WatchBackoff) -> Duration {
        let begun = Instant::now();
        backoff.failed().await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_with_each_failure_in_a_row() {
        let mut backoff = WatchBackoff::new();
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            let next = delay(&mut backoff).await;
            assert!(next > last && next <= BACKOFF.longest(), "{last:?}, {next:?}");
            last = next;
        }
        for _ in 0..50 {
            assert!(delay(&mut backoff).await >= BACKOFF.longest().mul_f64(0.8));
        }
        backoff.worked();
        assert!(delay(&mut backoff).await <= BACKOFF.delay(1));
    }

    /// Connections are closed from time to time, and a watch without events reports nothing else.
    #[tokio::test(start_paused = true)]
    async fn watch_that_ran_for_long_is_restarted_after_the_first_delay() {
        let mut backoff = WatchBackoff::new();
        for _ in 0..20 {
            advance(WORKED * 2).await;
            assert!(delay(&mut backoff).await <= BACKOFF.delay(1));
        }
    }
}
