//! Waiting for a condition that sends no event.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits before it fails. Long, because a machine may be busy.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest pause between two checks. Most conditions run kubectl, which slows other tests down.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(160)];

/// Waits until `condition` is true.
///
/// # Panics
/// When it is still false after [`TIMEOUT`]; the message has `what`.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    let [mut pause, longest] = PAUSES;
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "not within {TIMEOUT:?}: {what}");
        thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}
