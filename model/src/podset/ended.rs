//! When pods that have ended are replaced.
//!
//! A pod that a node rejects, or that is evicted as soon as it starts, would be deleted and created again without end.
//! So a pod that has ended is deleted only when it has reached an age that doubles each time, as a kubelet does between
//! the restarts of a container.

/// The age in seconds at which the first pod that has ended is replaced.
const FIRST: i64 = 5;

/// The largest such age in seconds.
const MAX: i64 = 300;

/// A pod that ends at a lower age, in seconds, has ended early. The age is that at its deletion, so this is more than
/// [`MAX`].
pub const EARLY: i64 = 600;

/// Returns the age in seconds that a pod that has ended must have to be deleted.
pub fn min_life(early_ends: u32) -> i64 {
    let factor = 1_i64.checked_shl(early_ends).unwrap_or(MAX);
    FIRST.saturating_mul(factor.clamp(1, MAX)).min(MAX)
}

/// Counts how often in a row pods have ended early, after pods of these ages in seconds had ended and were deleted.
/// Pods that are deleted together count once.
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
    fn each_pod_that_is_rejected_is_replaced_later_than_the_one_before() {
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
    fn pods_that_have_lived_long_are_replaced_without_delay() {
        assert_eq!(early_ends(3, [EARLY, EARLY + 1].into_iter()), 0);
        assert_eq!(early_ends(3, [EARLY, 7].into_iter()), 4, "one of them has not");
        assert_eq!(early_ends(3, [].into_iter()), 3, "none was deleted");
    }
}
