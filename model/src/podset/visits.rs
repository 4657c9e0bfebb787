//! Counts visits of pods in a decision, so that a test can check that the cost is proportional to the number of pods.

#[cfg(test)]
thread_local! {
    static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a visit of a pod, in tests.
pub fn visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}

/// Returns the number of visits by this thread during a call.
#[cfg(test)]
pub fn during<T>(call: impl FnOnce() -> T) -> usize {
    VISITS.set(0);
    drop(call());
    VISITS.get()
}
