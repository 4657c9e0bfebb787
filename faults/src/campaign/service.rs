//! Queue services: the servers, what users do there, and the errors and delays of a faulty one.

use std::fmt;
use std::time::Duration;

use fault_proxy::Answer;

/// Which queue server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// ElasticMQ, which accepts any credentials. All runs share it.
    ElasticMq,
    /// moto, which checks credentials. Each run has its own.
    Moto,
}

/// An action outside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// The queue of this AppQueue is deleted.
    DeleteQueue(&'static str),
    /// The credentials lose all rights.
    Revoke,
    /// The credentials have all rights again.
    Restore,
}

/// How long a slow answer takes, which is less than the operator's deadline.
pub const SLOW: Duration = Duration::from_secs(3);
/// A time after which the operator has given up to wait for an answer.
pub const DEADLINE: Duration = Duration::from_secs(6);
/// How many reads in a row are answered as before the last change.
pub const LAGGING_READS: usize = 3;

/// An error that a queue service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceError {
    /// The name of a queue that was deleted is refused for 60 seconds.
    DeletedRecently,
    /// There were too many calls.
    Throttled,
    /// The credentials do not permit the call.
    Denied,
    /// The service failed.
    Internal,
    /// The service is overloaded, and says when to try again.
    Unavailable,
}

impl ServiceError {
    fn code(self) -> &'static str {
        match self {
            Self::DeletedRecently => "QueueDeletedRecently",
            Self::Throttled => "RequestThrottled",
            Self::Denied => "AccessDenied",
            Self::Internal => "InternalError",
            Self::Unavailable => "ServiceUnavailable",
        }
    }

    /// Returns it in the format of SQS.
    #[must_use]
    pub fn answer(self) -> Answer {
        let status = match self {
            Self::DeletedRecently | Self::Throttled => 400,
            Self::Denied => 403,
            Self::Internal => 500,
            Self::Unavailable => 503,
        };
        let answer = Answer::queue_error(status, self.code(), "an injected fault");
        if self == Self::Unavailable {
            answer.header("Retry-After", "1")
        } else {
            answer
        }
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.code())
    }
}

/// Returns the answer to a read before the queue exists.
#[must_use]
pub fn missing() -> Answer {
    Answer::queue_error(400, "QueueDoesNotExist", "an injected fault")
}
