//! How a reconcile ended, as it is counted.

use crate::result::{Error, ReconcileResult};

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do.
    Success,
    /// It will be tried again.
    Error,
    /// It waits for a change of the spec.
    Terminal,
    /// It took too long.
    Timeout,
    /// It panicked.
    Panic,
}

impl Outcome {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Success, Self::Error, Self::Terminal, Self::Timeout, Self::Panic];

    /// Returns the outcome of a reconcile that ended by itself.
    #[must_use]
    pub const fn of(result: ReconcileResult) -> Self {
        match result {
            Ok(_) | Err(Error::Stale | Error::Deleted) => Self::Success,
            Err(Error::Failed) => Self::Error,
            Err(Error::Terminal) => Self::Terminal,
        }
    }

    /// Returns the word for it.
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
