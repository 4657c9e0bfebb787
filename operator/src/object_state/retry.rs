//! Failed reconciles of an object, and when it is reconciled again.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::key::Key;
use crate::result::{Error, ReconcileResult, Requeue};

/// Delays between failed reconciles. Once the cause is removed, an object waits for the longest of them at most.
pub const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(60));

/// When objects of one kind are reconciled again.
pub trait Retries: Send + Sync {
    /// Returns how long an object must still wait because the API server asked for it.
    fn throttled_for(&self, key: &Key) -> Option<Duration>;

    /// Records the result of a reconcile. Returns how long to wait before the next one, if there is to be one. `retry_after`
    /// is how long the API server asked to wait.
    fn requeue_in(&self, key: &Key, result: ReconcileResult, retry_after: Option<Duration>) -> Option<Duration>;
}

/// What follows a reconcile.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// It has failed, and is retried with backoff.
    Retry(Error),
    /// It has not failed; the object is reconciled again after this time, if there is one.
    Requeue(Option<Duration>),
}

/// Returns what follows this result.
pub(super) fn of(result: ReconcileResult) -> Next {
    match result {
        Err(error @ (Error::Failed | Error::Stale)) => Next::Retry(error),
        Ok(Requeue::Now) => Next::Requeue(Some(Duration::ZERO)),
        Ok(Requeue::After(wait)) => Next::Requeue(Some(wait)),
        Ok(Requeue::Done) | Err(Error::Deleted | Error::Terminal) => Next::Requeue(None),
    }
}

/// The failures of an object in a row.
#[derive(Debug, Default)]
pub struct Retry {
    /// Failures in a row. One that an event caused before the retry was due does not count: it does not prolong the wait.
    count: u32,
    /// When it is retried.
    due: Option<Instant>,
    /// Until when the API server asked to wait; an event does not shorten that.
    throttled_until: Option<Instant>,
}

impl Retry {
    /// Returns how long the object must still wait because the API server asked for it.
    pub(super) fn throttled_for(&self) -> Option<Duration> {
        let wait = self.throttled_until?.checked_duration_since(Instant::now());
        wait.filter(|wait| !wait.is_zero())
    }

    /// Records a failure, and returns how long to wait before the retry.
    pub(super) fn failed(&mut self, error: Error, retry_after: Option<Duration>) -> Duration {
        let now = Instant::now();
        if self.due.is_none_or(|due| now >= due) {
            self.count = self.count.saturating_add(1);
        }
        let wait = match (error, self.count) {
            (Error::Stale, 1) => Duration::ZERO,
            (_, count) => BACKOFF.jittered(count),
        };
        self.throttled_until = retry_after.map(|retry_after| now + retry_after);
        let wait = wait.max(retry_after.unwrap_or_default());
        self.due = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_state::ObjectStates;

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    #[tokio::test(start_paused = true)]
    async fn stale_reconcile_is_retried_immediately_only_the_first_time() {
        let states = ObjectStates::<()>::default();
        let wait = |name: &str, result| states.requeue_in(&key(name), result, None);
        let longest = (0..50).filter_map(|_| wait("busy", Err(Error::Failed))).max();
        assert!(longest <= Some(BACKOFF.delay(1)), "without retries: {longest:?}");
        assert_eq!(wait("a", Err(Error::Stale)), Some(Duration::ZERO));
        assert!(wait("a", Err(Error::Stale)) > Some(Duration::from_millis(300)));
        assert_eq!(wait("a", Ok(Requeue::Done)), None);
        assert_eq!(wait("a", Err(Error::Stale)), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_object_waits_as_long_as_the_api_server_asked() {
        let states = ObjectStates::<()>::default();
        let seconds = Duration::from_secs;
        let wait = states.requeue_in(&key("a"), Err(Error::Failed), Some(seconds(7)));
        assert_eq!(
            (wait, states.throttled_for(&key("a"))),
            (Some(seconds(7)), Some(seconds(7)))
        );
        tokio::time::advance(seconds(7)).await;
        assert_eq!(states.throttled_for(&key("a")), None);
    }
}
