//! The backoff for finished pods.
//!
//! A pod that a node rejects, or that is evicted as soon as it starts, would be deleted and created again without end. So a
//! finished pod is deleted only at an age that doubles each time, like the kubelet's backoff between restarts of a
//! container.

/// The age in seconds at which the first finished pod is deleted.
const FIRST: i64 = 5;

/// The largest such age in seconds.
const MAX: i64 = 300;

/// A pod that is younger at its deletion, in seconds, has ended early. It is more than [`MAX`].
pub const EARLY: i64 = 600;

/// Returns the age in seconds at which a finished pod is deleted.
pub fn min_life(early_ends: u32) -> i64 {
    let factor = 1_i64.checked_shl(early_ends).unwrap_or(MAX);
    FIRST.saturating_mul(factor.clamp(1, MAX)).min(MAX)
}

/// Returns how often in a row pods have ended early, after finished pods of these ages in seconds were deleted. Pods that
/// are deleted together count once.
#[must_use]
pub fn early_ends(before: u32, mut ages: impl Iterator<Item = i64>) -> u32 {
    match ages.next() {
        None => before,
        Some(first) if first < EARLY || ages.any(|age| age < EARLY) => before.saturating_add(1),
        Some(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rejected_pod_is_replaced_later() {
        let mut count = 0;
        let ages: Vec<i64> = (0..10)
            .map(|_| {
                let age = min_life(count);
                count = early_ends(count, [age].into_iter());
                age
            })
            .collect();
        assert_eq!(ages, [5, 10, 20, 40, 80, 160, 300, 300, 300, 300]);
        assert_eq!(min_life(u32::MAX), MAX);
    }

    #[test]
    fn long_running_pods_are_replaced_soon() {
        assert_eq!(early_ends(3, [EARLY, EARLY + 1].into_iter()), 0);
        assert_eq!(early_ends(3, [EARLY, 7].into_iter()), 4, "one of them has not");
        assert_eq!(early_ends(3, [].into_iter()), 3, "none was deleted");
    }
}
