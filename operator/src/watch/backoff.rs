//! How long to wait before what has failed is tried again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// What was followed for this long has worked: what fails after that is a new failure. A watch in which nothing happens does
/// not say that it works.
const WORKED: Duration = Duration::from_secs(60);

/// How often something was tried in vain.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    begun: Instant,
}

impl Backoff {
    /// Begins the first.
    pub(super) fn new() -> Self {
        Self {
            failures: 0,
            begun: Instant::now(),
        }
    }

    /// Takes in that it works.
    pub(super) const fn worked(&mut self) {
        self.failures = 0;
    }

    /// Takes in that it has failed, and waits until it is to be tried again: twice as long each time.
    pub(super) async fn failed(&mut self) {
        let before = if self.begun.elapsed() > WORKED {
            0
        } else {
            self.failures
        };
        self.failures = before + 1;
        let doubled = FIRST.saturating_mul(1 << before.min(10));
        sleep(doubled.min(LONGEST).mul_f64(1.0 - 0.2 * fastrand::f64())).await;
        self.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    async fn wait(tries: &mut Backoff) -> Duration {
        let begun = Instant::now();
        tries.failed().await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_again_and_again_is_tried_ever_less_often() {
        let mut tries = Backoff::new();
        let mut last = Duration::ZERO;
        for _ in 0..6 {
            let next = wait(&mut tries).await;
            assert!(next > last && next <= LONGEST, "{last:?}, {next:?}");
            last = next;
        }
        for _ in 0..50 {
            assert!(wait(&mut tries).await >= LONGEST.mul_f64(0.8));
        }
        tries.worked();
        assert!(wait(&mut tries).await <= FIRST);
    }

    /// Connections are cut from time to time, and where nothing happens nothing else is heard of a watch.
    #[tokio::test(start_paused = true)]
    async fn what_was_cut_after_it_had_worked_for_long_is_tried_at_once() {
        let mut tries = Backoff::new();
        for _ in 0..20 {
            advance(WORKED * 2).await;
            assert!(wait(&mut tries).await <= FIRST);
        }
    }
}
