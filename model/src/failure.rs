//! The failures of a reconcile.

use crate::valid::Invalid;

/// One reason why an app or a pod set could not be brought to the desired state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The spec can't be turned into children.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The stored object does not match the schema, so its spec can't be read.
    #[error("the object can't be read: {0}")]
    Unreadable(String),
    /// A third-party object has the name of a child. It is not changed.
    #[error("{kind} {name} exists and {}", match owner { Some(owner) => format!("belongs to {owner}"), None => "is not managed by appdeploy".to_owned() })]
    NameConflict {
        /// The kind of the child.
        kind: &'static str,
        /// Its name.
        name: String,
        /// "Kind name" of the object's controller, if it has one.
        owner: Option<String>,
    },
    /// A child of a deleted app of the same name still exists. The garbage collector will delete it.
    #[error("{kind} {name} of the {owner} that was deleted is still there")]
    Leftover {
        /// The kind of the child.
        kind: &'static str,
        /// Its name.
        name: String,
        /// "Kind name" of the owner that was deleted.
        owner: String,
    },
    /// Another app has the host. No Ingress is created.
    #[error("{what} is used by {owner}, which came first")]
    HostConflict {
        /// The host, with the path if only that is taken.
        what: String,
        /// The owner of the host.
        owner: String,
    },
    /// The API server, an admission webhook or a policy rejects a child.
    #[error("{kind} {name} is refused: {message}")]
    Rejected {
        /// The kind of the child.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The message of the API server.
        message: String,
    },
    /// The operator lacks a right.
    #[error("the operator may not do its work: {0}")]
    Forbidden(String),
    /// A kind can't be listed or watched, so the state of its objects is not known.
    #[error("the {resource} can't be watched: {why}")]
    WatchFailed {
        /// The plural name of the kind.
        resource: &'static str,
        /// The message of the API server.
        why: String,
    },
    /// The namespace is being deleted, so no object can be created in it.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// The API server did not answer, or its response is not about the object.
    #[error("{what}: {why}")]
    Unavailable {
        /// The operation.
        what: String,
        /// Why it failed.
        why: String,
    },
    /// The reconcile took too long and was given up.
    #[error("the reconcile took longer than {seconds} s and was given up; it is tried again")]
    TimedOut {
        /// The timeout in seconds.
        seconds: u64,
    },
    /// The operator panicked while it reconciled the object.
    #[error("the operator panicked while it reconciled this object, and tries again; this is a bug, please report it")]
    Panicked,
}

impl Failure {
    /// Whether a retry can succeed without a change of the object.
    #[must_use]
    pub const fn is_worth_a_retry(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::Unreadable(_) | Self::HostConflict { .. })
    }

    /// Whether the API server has answered, and a webhook that it calls has not.
    #[must_use]
    pub fn is_of_a_webhook(&self) -> bool {
        matches!(self, Self::Unavailable { why, .. } if why.contains("failed calling webhook"))
    }

    /// Returns the value of the metric label `class`.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Unreadable(_) => "unreadable",
            Self::NameConflict { .. } => "name_conflict",
            Self::Leftover { .. } => "leftover",
            Self::HostConflict { .. } => "host_conflict",
            Self::Rejected { .. } => "rejected",
            Self::Forbidden(_) => "forbidden",
            Self::WatchFailed { .. } => "blind",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Unavailable { .. } => "unavailable",
            Self::TimedOut { .. } => "timeout",
            Self::Panicked => "panic",
        }
    }
}
