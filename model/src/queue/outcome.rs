//! The result of a reconcile.

use super::{CallError, DeadLetterState, Drift};

/// After how many seconds a creation is tried again that a deletion less than 60 s ago blocks.
const DELETED_RECENTLY_RETRY: i64 = 15;
/// After how many seconds a change that is not visible yet is looked for again.
const PROPAGATION_RETRY: i64 = 5;

/// The result of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// The state of the queue.
    pub state: State,
    /// What others have changed since the last reconcile. Reported once, as Events and in a metric.
    pub drift: Vec<Drift>,
}

/// The state of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The queue is as desired.
    Ready(View),
    /// The queue was created and is not visible yet.
    Propagating,
    /// The dead letter queue can't be used. Everything else is as desired if the queue exists.
    DeadLetter {
        /// What is wrong with it.
        state: DeadLetterState,
        /// The queue, if it exists.
        view: Option<View>,
    },
    /// A queue with this name exists and is not ours. It is not changed.
    Conflict(Conflict),
    /// A call failed.
    Failed(CallError),
    /// The AppQueue is being deleted, and nothing is left to do.
    Deleting,
}

/// A queue, as the status reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// The URL.
    pub url: String,
    /// The ARN.
    pub arn: Option<String>,
    /// The approximate number of messages.
    pub depth: Option<i64>,
}

/// Why a queue is not ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// No AppQueue has created or adopted it.
    NotManaged,
    /// It belongs to the AppQueue with this UID.
    Owned {
        /// The UID.
        uid: String,
    },
}

/// When a queue is reconciled again without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// At the next resync.
    Resync,
    /// After this number of seconds.
    After(i64),
    /// After a failure: with the backoff of the controller.
    Backoff,
}

impl Outcome {
    /// Returns when the queue is reconciled again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match &self.state {
            State::Ready(_) | State::Conflict(_) | State::DeadLetter { .. } | State::Deleting => Retry::Resync,
            State::Propagating => Retry::After(PROPAGATION_RETRY),
            State::Failed(CallError::DeletedRecently) => Retry::After(DELETED_RECENTLY_RETRY),
            State::Failed(CallError::Throttled {
                retry_after: Some(seconds),
            }) => Retry::After(i64::from(*seconds).clamp(1, 60)),
            State::Failed(_) => Retry::Backoff,
        }
    }

    /// Returns the queue, if it is known to exist.
    #[must_use]
    pub const fn view(&self) -> Option<&View> {
        match &self.state {
            State::Ready(view) | State::DeadLetter { view: Some(view), .. } => Some(view),
            _ => None,
        }
    }
}
