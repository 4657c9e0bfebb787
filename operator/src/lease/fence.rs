//! The fence around writes: whoever does not lead, or can't be sure to, writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How long a write that has begun may take beyond the time for which leadership is certain. Together they are less
/// than what another one waits before it leads.
const GRACE: Duration = Duration::from_secs(4);

/// Until when writes are let through. Cheap to copy; all copies are one fence.
#[derive(Clone, Debug)]
pub struct Fence {
    base: Instant,
    /// Milliseconds since `base`.
    open_until: Arc<AtomicU64>,
}

impl Fence {
    /// Returns a fence that lets everything through: there is no election.
    #[must_use]
    pub fn open() -> Self {
        let fence = Self::closed();
        fence.open_until.store(u64::MAX, Ordering::SeqCst);
        fence
    }

    /// Returns a fence that lets nothing through yet.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            base: Instant::now(),
            open_until: Arc::new(AtomicU64::new(0)),
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
        (!left.is_zero()).then(|| wanted.min(left.saturating_add(GRACE)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const WANTED: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_by_itself() {
        let fence = Fence::closed();
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
