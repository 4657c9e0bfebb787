//! Carries out plans: the only place that writes children.

pub mod children;
pub mod pods;

/// The outcome of one write.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done {
        /// The paths of the fields that the API server has not stored.
        dropped: Vec<String>,
    },
    /// The cached object was outdated and has been corrected: the object must be reconciled again.
    Stale,
}
