//! Calls to the queue service, and their results.

use std::collections::BTreeMap;

/// A call to the queue service. The name of the queue is [`super::Desired::name`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `GetQueueUrl`.
    GetUrl,
    /// `GetQueueAttributes`, with all attributes.
    GetAttributes {
        /// The URL of the queue.
        url: String,
    },
    /// `ListQueueTags`.
    GetTags {
        /// The URL of the queue.
        url: String,
    },
    /// `CreateQueue`.
    Create {
        /// The attributes of the queue.
        attributes: BTreeMap<String, String>,
        /// Its tags, with that of the owner.
        tags: BTreeMap<String, String>,
    },
    /// `SetQueueAttributes`.
    SetAttributes {
        /// The URL of the queue.
        url: String,
        /// The attributes to change.
        attributes: BTreeMap<String, String>,
    },
    /// `TagQueue`.
    Tag {
        /// The URL of the queue.
        url: String,
        /// The tags to set.
        tags: BTreeMap<String, String>,
    },
    /// `UntagQueue`.
    Untag {
        /// The URL of the queue.
        url: String,
        /// The keys of the tags to remove.
        keys: Vec<String>,
    },
    /// `DeleteQueue`.
    Delete {
        /// The URL of the queue.
        url: String,
    },
}

impl Call {
    /// Whether the call changes the queue.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        !matches!(self, Self::GetUrl | Self::GetAttributes { .. } | Self::GetTags { .. })
    }

    /// Returns the name of the call in the API of SQS.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::GetUrl => "GetQueueUrl",
            Self::GetAttributes { .. } => "GetQueueAttributes",
            Self::GetTags { .. } => "ListQueueTags",
            Self::Create { .. } => "CreateQueue",
            Self::SetAttributes { .. } => "SetQueueAttributes",
            Self::Tag { .. } => "TagQueue",
            Self::Untag { .. } => "UntagQueue",
            Self::Delete { .. } => "DeleteQueue",
        }
    }
}

/// The response to a successful call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The URL, of `GetUrl` and `Create`.
    Url(String),
    /// The attributes, of `GetAttributes`.
    Attributes(BTreeMap<String, String>),
    /// The tags, of `GetTags`.
    Tags(BTreeMap<String, String>),
    /// Nothing, of all other calls.
    Done,
}

/// Why a call failed, or could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CallError {
    /// There are no credentials for the call.
    #[error("{0}")]
    NoCredentials(CredentialsError),
    /// The queue does not exist.
    #[error("the queue does not exist")]
    NoSuchQueue,
    /// A queue with this name was deleted less than 60 s ago.
    #[error("a queue with this name was deleted less than a minute ago")]
    DeletedRecently,
    /// A queue with this name exists and has other attributes.
    #[error("a queue with this name exists and has other attributes")]
    AttributesDiffer,
    /// The service throttles requests.
    #[error("the queue service throttles requests")]
    Throttled {
        /// After how many seconds the service accepts requests again, if it says so.
        retry_after: Option<u32>,
    },
    /// The service rejects the credentials, or they lack a right.
    #[error("the queue service denies access: {0}")]
    Denied(String),
    /// The service rejects the request. Only a change of the spec helps.
    #[error("the queue service rejects the request: {0}")]
    Refused(String),
    /// The service does not answer, and the call was not carried out or only reads.
    #[error("the queue service is not available: {0}")]
    Unavailable(String),
    /// The response is lost. The call may have been carried out, or may still be.
    #[error("the queue service did not answer in time: {0}")]
    Lost(String),
}

/// Why there are no credentials.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CredentialsError {
    /// The spec names no Secret, and the operator has no credentials of its own.
    #[error("the spec names no Secret with credentials, and the operator has none of its own")]
    NotConfigured,
    /// The Secret does not exist.
    #[error("Secret {0} does not exist")]
    SecretMissing(String),
    /// The Secret lacks a key, or the value is empty.
    #[error("Secret {secret} has no key {key}")]
    KeyMissing {
        /// The name of the Secret.
        secret: String,
        /// The key.
        key: &'static str,
    },
    /// The operator may not get the Secret.
    #[error("the operator may not get Secret {0}")]
    SecretForbidden(String),
    /// The credentials of the operator may not be used for a queue with this name.
    #[error("the operator's own credentials are only for queues whose name starts with {0}")]
    ForeignName(String),
}
