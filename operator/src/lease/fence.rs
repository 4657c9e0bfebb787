//! The fence around writes: a replica that does not lead, or can't be sure of it, does not write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, timeout};

/// A clock that runs while the machine is suspended. Rust's `Instant` stops then on Linux, and a leader would resume with a Lease that
/// it lost hours ago.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
/// On other systems, this clock runs while the machine is suspended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;

/// Lets writes pass until a time. Cheap to copy; all copies are one fence.
#[derive(Clone)]
pub struct Fence {
    base: Instant,
    /// Returns how much time has passed since `base`, with the time in which the machine was suspended.
    clock: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Milliseconds since `base`.
    open_until: Arc<AtomicU64>,
    /// How long a running write may take after that.
    grace: Duration,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("open_until", &self.open_until)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

impl Fence {
    /// Returns a fence that is always open: there is no election.
    #[must_use]
    pub fn open() -> Self {
        let fence = Self::closed(Duration::ZERO);
        fence.open_until.store(u64::MAX, Ordering::SeqCst);
        fence
    }

    /// Returns a closed fence. A running write may take `grace` longer than leadership is certain (`Timings::grace`).
    #[must_use]
    pub fn closed(grace: Duration) -> Self {
        let base = since_boot();
        Self::with_clock(grace, move || since_boot().saturating_sub(base))
    }

    /// Returns a fence that is closed, with a clock that begins at zero.
    fn with_clock(grace: Duration, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            base: Instant::now(),
            clock: Arc::new(clock),
            open_until: Arc::new(AtomicU64::new(0)),
            grace,
        }
    }

    /// Returns how much time has passed since this fence was created, by the faster one of both clocks.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.base.elapsed().max((self.clock)())
    }

    /// Opens the fence until a time, as counted by [`Fence::now`].
    pub fn extend(&self, until: Duration) {
        let time = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.open_until.store(time, Ordering::SeqCst);
    }

    /// Closes the fence.
    pub fn close(&self) {
        self.open_until.store(0, Ordering::SeqCst);
    }

    /// Carries out an effect on anything outside of this process, a request to the API server or to another service, if this
    /// operator may have effects now, and for as long as it may, at most `limit`.
    ///
    /// # Errors
    /// Returns whether it did not begin, or did not end in time.
    pub async fn guard<T>(&self, limit: Duration, effect: impl Future<Output = T>) -> Result<T, Fenced> {
        let limit = self.allows(limit).ok_or(Fenced::Closed)?;
        timeout(limit, effect).await.map_err(|_| Fenced::TimedOut(limit))
    }

    /// Whether the fence is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.allows(Duration::MAX).is_some()
    }

    /// Returns how long a write that begins now may take, if it may begin, and at most `wanted`.
    ///
    /// The clock runs while the process or its machine is suspended: after that the fence is closed.
    #[must_use]
    fn allows(&self, wanted: Duration) -> Option<Duration> {
        let until = Duration::from_millis(self.open_until.load(Ordering::SeqCst));
        let left = until.checked_sub(self.now())?;
        (!left.is_zero()).then(|| wanted.min(left.saturating_add(self.grace)))
    }
}

/// Why a fenced effect has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// It did not begin: another operator may lead.
    Closed,
    /// It did not end in this time.
    TimedOut(Duration),
}

/// Returns the time since the machine was started; zero if it is unknown: then the other clock counts.
fn since_boot() -> Duration {
    clock_gettime(CLOCK).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::lease::election::Timings;

    const WANTED: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn fence_closes_by_itself() {
        let fence = Fence::closed(Duration::from_secs(4));
        assert!(!fence.is_open());
        fence.extend(fence.now() + Duration::from_secs(8));
        assert_eq!(fence.allows(WANTED), Some(WANTED));
        advance(Duration::from_secs(7)).await;
        assert_eq!(
            fence.allows(WANTED),
            Some(Duration::from_secs(5)),
            "the rest, and four seconds of grace"
        );
        advance(Duration::from_secs(1)).await;
        assert_eq!(fence.allows(WANTED), None);
    }

    /// For each setting, a write that hangs ends before another replica may lead.
    #[tokio::test(start_paused = true)]
    async fn last_write_of_a_leader_ends_before_its_lease() {
        for seconds in 3..=60 {
            let timings = Timings::of(Duration::from_secs(seconds));
            let fence = Fence::closed(timings.grace);
            let renewed = fence.now();
            fence.extend(renewed + timings.renew);
            advance(timings.renew.saturating_sub(Duration::from_millis(10))).await;
            let ends = fence.now().saturating_sub(renewed) + fence.allows(Duration::MAX).unwrap();
            assert!(ends < timings.lease, "{timings:?}: {ends:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fence_without_an_election_is_always_open() {
        advance(Duration::from_secs(1_000_000)).await;
        assert_eq!(Fence::open().allows(WANTED), Some(WANTED));
    }

    #[tokio::test(start_paused = true)]
    async fn all_copies_close_together() {
        let fence = Fence::open();
        let copy = fence.clone();
        fence.close();
        assert!(!copy.is_open());
    }

    /// `Instant` stops while a machine is suspended: a leader that resumes must not write.
    #[tokio::test(start_paused = true)]
    async fn fence_closes_while_the_machine_is_suspended() {
        let slept = Arc::new(AtomicU64::new(0));
        let clock = slept.clone();
        let fence = Fence::with_clock(Duration::from_secs(4), move || {
            Duration::from_secs(clock.load(Ordering::SeqCst))
        });
        let renewed = fence.now();
        fence.extend(renewed + Duration::from_secs(10));
        assert!(fence.is_open());
        slept.store(3600, Ordering::SeqCst);
        assert_eq!(fence.allows(WANTED), None);
        // The answer to a renewal that was sent before.
        fence.extend(renewed + Duration::from_secs(10));
        assert!(!fence.is_open());
        fence.extend(fence.now() + Duration::from_secs(10));
        assert!(fence.is_open());
    }

    #[test]
    fn clock_of_a_fence_runs() {
        let fence = Fence::closed(Duration::ZERO);
        let before = (fence.clock)();
        while (fence.clock)() == before {
            std::thread::yield_now();
        }
        assert!(since_boot() > Duration::ZERO);
    }
}
