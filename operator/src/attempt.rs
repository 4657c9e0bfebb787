//! One attempt to reconcile an object: how long its requests may take, and how long the API server asked to wait.
//!
//! The attempt is ambient ([`tokio::task_local`]), as a span is: every request of a reconcile sees it without a parameter.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task_local;
use tokio::time::Instant;

/// How long a reconcile may observe and write children. The remaining time until [`DEADLINE`] is for its status.
const WORK: Duration = Duration::from_secs(20);

/// The longest that one reconcile may take. Well below the 30 s that Kubernetes gives a pod to end.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// The longest that an object waits because the API server asked for it.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

task_local! {
    static CURRENT: Attempt;
}

/// One attempt to reconcile an object.
#[derive(Clone, Debug)]
pub struct Attempt {
    began: Instant,
    /// When its requests must have ended.
    until: Instant,
    /// When the API server wants to be asked again.
    retry_at: Arc<Mutex<Option<Instant>>>,
    /// When the first request began that got no answer.
    unanswered: Arc<Mutex<Option<Instant>>>,
}

impl Attempt {
    /// Begins an attempt.
    #[must_use]
    pub fn begin() -> Self {
        let began = Instant::now();
        Self {
            began,
            until: began + WORK,
            retry_at: Arc::default(),
            unanswered: Arc::default(),
        }
    }

    /// Runs a part of this attempt.
    pub async fn run<F: Future>(&self, part: F) -> F::Output {
        CURRENT.scope(self.clone(), part).await
    }

    /// Returns how long the API server asked to wait, from now on.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let at = *self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        at.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

/// Returns how long a request that begins now may take: `wanted`, or the rest of the current attempt.
#[must_use]
pub fn time_left(wanted: Duration) -> Duration {
    CURRENT
        .try_with(|attempt| wanted.min(attempt.until.saturating_duration_since(Instant::now())))
        .unwrap_or(wanted)
}

/// Records that a request which began then got no answer. Without a time none could be sent: the attempt has lasted too long.
pub fn unanswered(since: Option<Instant>) {
    // Outside of attempts it is not asked for.
    let _ = CURRENT.try_with(|attempt| {
        let mut first = attempt.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(since.unwrap_or(attempt.began));
    });
}

/// Returns for how long the current attempt has been without an answer; zero if every request was answered.
#[must_use]
pub fn unanswered_for() -> Duration {
    let since = CURRENT.try_with(|attempt| *attempt.unanswered.lock().unwrap_or_else(PoisonError::into_inner));
    since.ok().flatten().map(|since| since.elapsed()).unwrap_or_default()
}

/// Records that the API server asked to wait before the next request about the same object.
pub fn throttled(wait: Duration) {
    let at = Instant::now() + wait.min(LONGEST_RETRY_AFTER);
    // Outside of attempts nothing is retried.
    let _ = CURRENT.try_with(|attempt| {
        let mut retry_at = attempt.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        *retry_at = (*retry_at).max(Some(at));
    });
}

/// Runs the end of the current attempt, the write of the status, with the time that was kept for it.
pub async fn conclude<F: Future>(part: F) -> F::Output {
    match CURRENT.try_with(Clone::clone) {
        Ok(attempt) => {
            let until = attempt.began + DEADLINE;
            Attempt { until, ..attempt }.run(part).await
        }
        Err(_) => part.await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const CALL: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn requests_get_the_time_that_is_left_and_the_status_gets_the_rest() {
        let work = async {
            assert_eq!(time_left(CALL), CALL);
            advance(Duration::from_secs(17)).await;
            assert_eq!(time_left(CALL), Duration::from_secs(3));
            advance(Duration::from_secs(4)).await;
            assert_eq!(time_left(CALL), Duration::ZERO);
            assert_eq!(conclude(async { time_left(CALL) }).await, Duration::from_secs(4));
        };
        Attempt::begin().run(work).await;
        assert_eq!(time_left(CALL), CALL, "outside of attempts");
    }

    /// A slow API server that answers is not a failing one.
    #[tokio::test(start_paused = true)]
    async fn only_requests_without_an_answer_count_as_unanswered() {
        let work = async {
            advance(Duration::from_secs(7)).await;
            assert_eq!(unanswered_for(), Duration::ZERO);
            let began = Instant::now();
            advance(Duration::from_secs(3)).await;
            unanswered(Some(began));
            advance(Duration::from_secs(1)).await;
            assert_eq!(conclude(async { unanswered_for() }).await, Duration::from_secs(4));
        };
        Attempt::begin().run(work).await;
        let late = async {
            advance(Duration::from_secs(20)).await;
            unanswered(None);
            assert_eq!(unanswered_for(), Duration::from_secs(20));
        };
        Attempt::begin().run(late).await;
        assert_eq!(unanswered_for(), Duration::ZERO, "outside of attempts");
    }

    #[tokio::test(start_paused = true)]
    async fn longest_retry_after_counts_up_to_a_minute() {
        let attempt = Attempt::begin();
        assert_eq!(attempt.retry_after(), None);
        let seconds = |attempt: &Attempt| attempt.retry_after().map(|wait| wait.as_secs());
        attempt.run(async { throttled(Duration::from_secs(7)) }).await;
        attempt.run(conclude(async { throttled(Duration::from_secs(2)) })).await;
        assert_eq!(seconds(&attempt), Some(7));
        attempt.run(async { throttled(Duration::from_secs(86_400)) }).await;
        assert_eq!(seconds(&attempt), Some(60));
    }
}
