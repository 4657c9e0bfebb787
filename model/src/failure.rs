//! What can keep a reconcile from its goal.

use crate::valid::Invalid;

/// One reason why an application could not be brought to where its spec wants it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The spec can't be turned into children.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The stored object does not fit the schema, so its spec can't even be read.
    #[error("the object can't be read: {0}")]
    Unreadable(String),
    /// The name of a child is taken by an object that is not this application's. It is left as it is.
    #[error("{kind} {name} exists and {}", match owner { Some(owner) => format!("belongs to {owner}"), None => "is not managed by appdeploy".to_owned() })]
    NameConflict {
        /// The kind of the child.
        kind: &'static str,
        /// Its name.
        name: String,
        /// "Kind name" of the object's controller, if it has one.
        owner: Option<String>,
    },
    /// The name of a child is taken by that of a deleted owner of the same name, which is about to go.
    #[error("{kind} {name} of the {owner} that was deleted is still there")]
    Leftover {
        /// The kind of the child.
        kind: &'static str,
        /// Its name.
        name: String,
        /// "Kind name" of the owner that was deleted.
        owner: String,
    },
    /// The host is another application's. No Ingress is made.
    #[error("{what} is used by {owner}, which came first")]
    HostConflict {
        /// The host, with the path where that is what is taken.
        what: String,
        /// Whose it is.
        owner: String,
    },
    /// The API server, an admission webhook or a policy does not take a child.
    #[error("{kind} {name} is refused: {message}")]
    Rejected {
        /// The kind of the child.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What the API server said.
        message: String,
    },
    /// The operator lacks a right.
    #[error("the operator may not do its work: {0}")]
    Forbidden(String),
    /// A kind can't be listed or watched, so nothing is known of its objects.
    #[error("the {resource} can't be watched: {why}")]
    Blind {
        /// The plural name of the kind.
        resource: &'static str,
        /// What the API server said.
        why: String,
    },
    /// The namespace is being deleted: nothing can be created in it any more.
    #[error("the namespace is being deleted")]
    NamespaceTerminating,
    /// The API server did not answer, or not with an answer about the object.
    #[error("{what}: {why}")]
    Unavailable {
        /// What was tried.
        what: String,
        /// What happened.
        why: String,
    },
    /// The reconcile took too long and was given up.
    #[error("the reconcile took longer than {seconds} s and was given up; it is tried again")]
    TimedOut {
        /// How long it took.
        seconds: u64,
    },
    /// The operator panicked while it reconciled the object.
    #[error("the operator panicked while it reconciled this object, and tries again; this is a bug, please report it")]
    Panicked,
}

impl Failure {
    /// Whether trying again can help although nobody changed the application.
    #[must_use]
    pub const fn is_worth_a_retry(&self) -> bool {
        !matches!(self, Self::Invalid(_) | Self::Unreadable(_) | Self::HostConflict { .. })
    }

    /// Whether the API server has answered, and only a webhook that it asks has not.
    #[must_use]
    pub fn is_of_a_webhook(&self) -> bool {
        matches!(self, Self::Unavailable { why, .. } if why.contains("failed calling webhook"))
    }

    /// Returns a word for a metric's label.
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
            Self::Blind { .. } => "blind",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Unavailable { .. } => "unavailable",
            Self::TimedOut { .. } => "timeout",
            Self::Panicked => "panic",
        }
    }
}
