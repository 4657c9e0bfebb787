//! Writes of the status of an object.

use std::time::Duration;

use model::Failure;
use tokio::time::Instant;

/// The shortest time between two writes of one status. Pods come and go in bursts, and only the last status matters.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long requests may fail before the status reports it. A request that is retried a moment later is not worth a status.
pub const TOLERATED_OUTAGE: Duration = Duration::from_secs(5);

/// The writes of an object's status, which is an `S`.
#[derive(Debug)]
pub struct StatusWrites<S> {
    /// When the object was first reconciled.
    first_seen: Instant,
    /// When its status was last written.
    written: Option<Instant>,
    /// The status that was written to an object whose stored status can't be read.
    unreadable: Option<Box<S>>,
    /// Since when requests have failed.
    unavailable: Option<Instant>,
}

impl<S> Default for StatusWrites<S> {
    fn default() -> Self {
        Self {
            first_seen: Instant::now(),
            written: None,
            unreadable: None,
            unavailable: None,
        }
    }
}

impl<S> StatusWrites<S> {
    /// Records that the status was written now, and the status itself if it can't be read back.
    pub fn written(&mut self, unreadable: Option<S>) {
        self.written = Some(Instant::now());
        self.unreadable = unreadable.map(Box::new);
    }

    /// Whether no status was written for as long as one may be delayed.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.written.unwrap_or(self.first_seen).elapsed() >= STATUS_INTERVAL
    }

    /// Returns how long the next write of the status must wait.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        STATUS_INTERVAL.checked_sub(self.written?.elapsed())
    }

    /// Returns what was written as the status of an object that can't be read.
    #[must_use]
    pub fn unreadable(&self) -> Option<&S> {
        self.unreadable.as_deref()
    }

    /// Whether only requests failed, and not for long.
    pub fn is_short_outage(&mut self, failures: &[Failure]) -> bool {
        let is_outage = |failure: &Failure| matches!(failure, Failure::Unavailable { .. });
        if failures.is_empty() || !failures.iter().all(is_outage) {
            self.unavailable = None;
            return false;
        }
        self.unavailable.get_or_insert_with(Instant::now).elapsed() < TOLERATED_OUTAGE
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn unavailable() -> [Failure; 1] {
        [Failure::Unavailable {
            what: "create Service web".into(),
            why: "no answer".into(),
        }]
    }

    #[tokio::test(start_paused = true)]
    async fn status_is_written_at_most_once_a_second() {
        let mut status = StatusWrites::<()>::default();
        assert_eq!((status.delay(), status.is_due()), (None, false));
        advance(Duration::from_secs(1)).await;
        assert_eq!((status.delay(), status.is_due()), (None, true));
        status.written(None);
        advance(Duration::from_millis(300)).await;
        assert_eq!(
            (status.delay(), status.is_due()),
            (Some(Duration::from_millis(700)), false)
        );
        advance(Duration::from_secs(1)).await;
        assert_eq!((status.delay(), status.is_due()), (None, true));
    }

    #[tokio::test(start_paused = true)]
    async fn outage_is_reported_when_it_continues() {
        let mut status = StatusWrites::<()>::default();
        assert!(status.is_short_outage(&unavailable()));
        advance(TOLERATED_OUTAGE).await;
        assert!(!status.is_short_outage(&unavailable()));
        assert!(!status.is_short_outage(&[]));
        assert!(status.is_short_outage(&unavailable()), "a new outage");
        let forbidden = Failure::Forbidden(String::new());
        assert!(!status.is_short_outage(&[unavailable().into(), vec![forbidden]].concat()));
    }
}
