//! How soon something may be tried or put right again.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(60);

/// Holds back what has to be done again and again: because it fails, or because somebody undoes it each time.
#[derive(Debug)]
pub struct Backoff {
    wait: Duration,
    last: Option<Instant>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            wait: FIRST,
            last: None,
        }
    }
}

impl Backoff {
    /// Returns when it may be done next, unless that is now.
    #[must_use]
    pub fn not_before(&self) -> Option<Instant> {
        self.last.map(|last| last + self.wait).filter(|at| *at > Instant::now())
    }

    /// Takes in that it is done now. If it was not long since it could have been, the next time is later.
    pub fn step(&mut self) {
        let is_soon = self.last.is_some_and(|last| last.elapsed() < 2 * self.wait);
        self.wait = if is_soon { (2 * self.wait).min(LAST) } else { FIRST };
        self.last = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_undone_each_time_is_done_ever_less_often() {
        let mut pace = Backoff::default();
        let begun = Instant::now();
        let mut times = 0;
        while begun.elapsed() < Duration::from_secs(600) {
            pace.step();
            times += 1;
            sleep_until(pace.not_before().unwrap()).await;
        }
        assert_eq!(times, 16);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_undone_now_and_then_is_done_at_once() {
        let mut pace = Backoff::default();
        for _ in 0..10 {
            assert_eq!(pace.not_before(), None);
            pace.step();
            advance(Duration::from_secs(2)).await;
        }
    }
}
