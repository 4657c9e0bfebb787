//! The outcome of a reconcile, which is a label of metrics.

use crate::result::{Error, ReconcileResult};

/// The outcome of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended without an error. This includes reconciles that are repeated because a cached object was outdated.
    Success,
    /// It failed and is retried.
    Error,
    /// It failed and is not retried until the spec changes.
    Terminal,
    /// It was aborted because it took too long.
    Timeout,
    /// It panicked.
    Panic,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [Self::Success, Self::Error, Self::Terminal, Self::Timeout, Self::Panic];

    /// Returns the outcome of a reconcile that neither panicked nor timed out.
    #[must_use]
    pub const fn of(result: ReconcileResult) -> Self {
        match result {
            Ok(_) | Err(Error::Stale | Error::Deleted) => Self::Success,
            Err(Error::Failed) => Self::Error,
            Err(Error::Terminal) => Self::Terminal,
        }
    }

    /// Returns the value of the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Terminal => "terminal_error",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
        }
    }
}
