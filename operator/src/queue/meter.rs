//! What a queue counts as it goes.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Bounds of the times that keys wait and are worked on, in seconds: from at once to what somebody has to look at.
const BUCKETS: [f64; 11] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// What a queue counts as it goes. Cheap to copy; all copies count together.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Keys that were put in, those that were in it already aside.
    pub adds: Counter,
    /// How long they waited until they were taken, in seconds.
    pub waited: Histogram,
    /// How long they were worked on, in seconds.
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

/// Makes a histogram of such times.
#[must_use]
pub fn times() -> Histogram {
    Histogram::new(BUCKETS)
}

/// The work that goes on at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Keys that are worked on.
    pub running: usize,
    /// How long they have been, together.
    pub unfinished: Duration,
    /// How long the one has been that began first.
    pub longest: Duration,
}
