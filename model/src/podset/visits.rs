//! Counts how often a decision looks at pods, so that a test can tell whether its cost grows with their number only.

#[cfg(test)]
thread_local! {
    static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts that a pod was looked at, in tests.
pub fn visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}

/// Returns how many pods were looked at by this thread during a call.
#[cfg(test)]
pub fn during<T>(call: impl FnOnce() -> T) -> usize {
    VISITS.set(0);
    drop(call());
    VISITS.get()
}
