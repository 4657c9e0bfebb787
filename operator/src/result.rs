//! The result of a reconcile.

use std::time::Duration;

/// The result of a reconcile.
pub type ReconcileResult = Result<Requeue, Error>;

/// When an object is reconciled again, if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Not before it changes.
    Done,
    /// Immediately: there is more to do.
    Now,
    /// When this time has passed.
    After(Duration),
}

/// Why a reconcile ended early or failed. What failed is in the status already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Cached objects were outdated and have been corrected: it is retried immediately, and with backoff if that repeats.
    #[error("cached objects were outdated")]
    Stale,
    /// The object was deleted, which its watch has not reported yet: nothing is left to do.
    #[error("the object was deleted")]
    Deleted,
    /// It is retried with backoff.
    #[error("it is retried with backoff")]
    Failed,
    /// It is not retried before the object changes.
    #[error("it waits for a change of the object")]
    Terminal,
}
