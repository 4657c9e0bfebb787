//! The fence around writes: whoever does not lead, or can't be sure to, writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Until when writes are let through. Cheap to copy; all copies are one fence.
#[derive(Clone, Debug)]
pub struct Fence {
    base: Instant,
    /// Milliseconds since `base`.
    open_until: Arc<AtomicU64>,
    /// How long a write that has begun may take beyond that.
    grace: Duration,
}

impl Fence {
    /// Returns a fence that lets everything through: there is no election.
    #[must_use]
    pub fn open() -> Self {
        let fence = Self::closed(Duration::ZERO);
        fence.open_until.store(u64::MAX, Ordering::SeqCst);
        fence
    }

    /// Returns a fence that lets nothing through yet. A write that has begun may take so much longer than leadership is
    /// certain (`Terms::grace`).
    #[must_use]
    pub fn closed(grace: Duration) -> Self {
        Self {
            base: Instant::now(),
            open_until: Arc::new(AtomicU64::new(0)),
            grace,
        }
    }

    /// Lets writes through until then.
    pub fn extend(&self, until: Instant) {
        let time = u64::try_from((until - self.base).as_millis()).unwrap_or(u64::MAX);
        self.open_until.store(time, Ordering::SeqCst);
    }

    /// Lets nothing through any more.
    pub fn close(&self) {
        self.open_until.store(0, Ordering::SeqCst);
    }

    /// Whether writes are let through now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.allows(Duration::MAX).is_some()
    }

    /// Returns how long a write that begins now may take, if it may begin, and at most `wanted`.
    ///
    /// The clock goes on while a process is frozen: one that wakes up finds the fence closed.
    #[must_use]
    pub fn allows(&self, wanted: Duration) -> Option<Duration> {
        let until = Duration::from_millis(self.open_until.load(Ordering::SeqCst));
        let left = until.checked_sub(self.base.elapsed())?;
        (!left.is_zero()).then(|| wanted.min(left.saturating_add(self.grace)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::lease::election::Terms;

    const WANTED: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_by_itself() {
        let fence = Fence::closed(Duration::from_secs(4));
        assert!(!fence.is_open());
        fence.extend(Instant::now() + Duration::from_secs(8));
        assert_eq!(fence.allows(WANTED), Some(WANTED));
        advance(Duration::from_secs(7)).await;
        assert_eq!(
            fence.allows(WANTED),
            Some(Duration::from_secs(5)),
            "what is left, and four more"
        );
        advance(Duration::from_secs(1)).await;
        assert_eq!(fence.allows(WANTED), None);
    }

    /// Whatever is set: a write that hangs ends before another one may lead.
    #[tokio::test(start_paused = true)]
    async fn the_last_write_of_a_leader_ends_before_its_lease() {
        for seconds in 3..=60 {
            let terms = Terms::of(Duration::from_secs(seconds));
            let fence = Fence::closed(terms.grace);
            let renewed = Instant::now();
            fence.extend(renewed + terms.renew);
            advance(terms.renew.saturating_sub(Duration::from_millis(1))).await;
            let ends = renewed.elapsed() + fence.allows(Duration::MAX).unwrap();
            assert!(ends < terms.lease, "{terms:?}: {ends:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_it_is_always_open() {
        advance(Duration::from_secs(1_000_000)).await;
        assert_eq!(Fence::open().allows(WANTED), Some(WANTED));
    }

    #[tokio::test(start_paused = true)]
    async fn all_copies_close_at_once() {
        let fence = Fence::open();
        let copy = fence.clone();
        fence.close();
        assert!(!copy.is_open());
    }
}
