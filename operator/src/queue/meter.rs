//! The metrics of a queue.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Bucket bounds of the times that keys wait and are taken, in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The metrics of a queue. Cheap to copy; all copies share their values.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Keys that were added, except those that were queued already.
    pub adds: Counter,
    /// How long they waited until they were taken, in seconds.
    pub waited: Histogram,
    /// How long they took until they were done, in seconds.
    pub worked: Histogram,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            adds: Counter::default(),
            waited: times(),
            worked: times(),
        }
    }
}

/// Returns a histogram of such times.
#[must_use]
pub fn times() -> Histogram {
    Histogram::new(BUCKETS)
}

/// The work at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Keys that are taken.
    pub running: usize,
    /// The sum of the times since they were taken.
    pub unfinished: Duration,
    /// The longest of these times.
    pub longest: Duration,
}
