//! The errors of calls.

use std::time::Duration;

use http::StatusCode;

/// The most characters of a server's message that are kept.
const MESSAGE: usize = 300;

/// The longest time that a server's `Retry-After` is honored.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// An error of a call.
///
/// Only after [`Error::Lost`] the call may have been carried out. Messages of servers are shortened, and have no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The queue does not exist.
    #[error("the queue does not exist")]
    NoSuchQueue,
    /// A queue of this name was deleted less than 60 seconds ago. The name can't be used before.
    #[error("a queue of this name was deleted less than 60 seconds ago")]
    DeletedRecently,
    /// A queue of this name exists, with other attributes than those of the call.
    #[error("the queue exists with other attributes: {message}")]
    AttributesDiffer {
        /// The server's message, which names the attributes.
        message: String,
    },
    /// There were too many calls.
    #[error("the queue service throttles calls")]
    Throttled {
        /// After what time the next call of this endpoint is sent.
        retry_after: Option<Duration>,
    },
    /// The credentials are not valid, or do not permit the call.
    #[error("denied by the queue service: {code}: {message}")]
    Denied {
        /// The server's code, such as `AccessDenied` or `InvalidClientTokenId`.
        code: String,
        /// The server's message.
        message: String,
    },
    /// The call is invalid, and is refused again unless it changes.
    #[error("refused by the queue service: {code}: {message}")]
    Refused {
        /// The server's code, such as `InvalidAttributeValue`.
        code: String,
        /// The server's message.
        message: String,
    },
    /// The endpoint has only addresses that the [policy](crate::AddressPolicy) refuses.
    #[error(
        "the address {address} of the queue service is not allowed: it is a loopback, link-local or multicast address"
    )]
    AddressNotAllowed {
        /// The address.
        address: std::net::IpAddr,
    },
    /// There was no usable answer, and the call was not carried out, or only reads.
    #[error("the queue service is not available: {why}")]
    Unavailable {
        /// The reason.
        why: String,
        /// After what time the next call of this endpoint is sent, if calls are held back.
        retry_after: Option<Duration>,
    },
    /// There was no usable answer, and the call may have been carried out.
    #[error("the queue service did not answer a call, which it may have carried out: {why}")]
    Lost {
        /// The reason.
        why: String,
    },
}

impl Error {
    /// Returns after what time the next call to the endpoint makes sense, if that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after } | Self::Unavailable { retry_after, .. } => *retry_after,
            Self::DeletedRecently => Some(Duration::from_secs(60)),
            _ => None,
        }
    }

    /// Returns the error of a call without a usable answer.
    pub(crate) fn no_answer(reads: bool, why: String) -> Self {
        if reads {
            Self::Unavailable { why, retry_after: None }
        } else {
            Self::Lost { why }
        }
    }

    /// Returns the error that a server answered. `code` and `message` are empty if the answer is not one of SQS.
    ///
    /// `reads` is whether the call has no effect.
    pub(crate) fn of_answer(
        status: StatusCode,
        code: &str,
        message: &str,
        retry_after: Option<Duration>,
        reads: bool,
    ) -> Self {
        let message = shorten(message);
        match code {
            "QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue" => return Self::NoSuchQueue,
            "QueueDeletedRecently" | "AWS.SimpleQueueService.QueueDeletedRecently" => return Self::DeletedRecently,
            "QueueNameExists" | "QueueAlreadyExists" => return Self::AttributesDiffer { message },
            _ => {}
        }
        let denied = |code: &str| Self::Denied {
            code: shorten(code),
            message: message.clone(),
        };
        match status.as_u16() {
            _ if is_throttling(code) => Self::Throttled { retry_after },
            _ if is_denial(code) => denied(code),
            429 => Self::Throttled { retry_after },
            401 | 403 => denied(if code.is_empty() { status.as_str() } else { code }),
            // The server gave up waiting for the request.
            408 | 500.. => {
                let why = match (code, message.as_str()) {
                    ("", _) => format!("status {status}"),
                    (code, "") => format!("status {status}: {}", shorten(code)),
                    (code, message) => format!("status {status}: {}: {message}", shorten(code)),
                };
                match Self::no_answer(reads, why) {
                    Self::Unavailable { why, .. } => Self::Unavailable { why, retry_after },
                    lost => lost,
                }
            }
            _ => Self::Refused {
                code: if code.is_empty() {
                    status.as_str().to_owned()
                } else {
                    shorten(code)
                },
                message: if code.is_empty() {
                    "the answer is not one of SQS: check the endpoint".to_owned()
                } else {
                    message
                },
            },
        }
    }
}

/// Returns whether a code means that there were too many calls.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html>
fn is_throttling(code: &str) -> bool {
    matches!(
        code,
        "RequestThrottled"
            | "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "RequestThrottledException"
            | "RequestLimitExceeded"
            | "TooManyRequestsException"
            | "LimitExceededException"
            | "BandwidthLimitExceeded"
            | "SlowDown"
            | "PriorRequestNotComplete"
    )
}

/// Returns whether a code means that the credentials are not valid or not sufficient. Servers send some with status 400.
fn is_denial(code: &str) -> bool {
    matches!(
        code,
        "AccessDenied"
            | "AccessDeniedException"
            | "AuthFailure"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "IncompleteSignature"
            | "InvalidAccessKeyId"
            | "InvalidClientTokenId"
            | "InvalidSecurity"
            | "InvalidSignatureException"
            | "MissingAuthenticationToken"
            | "MissingAuthenticationTokenException"
            | "NotAuthorized"
            | "OptInRequired"
            | "RequestExpired"
            | "SignatureDoesNotMatch"
            | "TokenRefreshRequired"
            | "UnrecognizedClientException"
    )
}

/// Returns the first line of a server's text without control characters, cut to [`MESSAGE`] characters.
fn shorten(text: &str) -> String {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let mut line = line.chars().filter(|letter| !letter.is_control());
    let mut short: String = line.by_ref().take(MESSAGE).collect();
    if line.next().is_some() {
        short.push('…');
    }
    short
}

/// Parses a `Retry-After` header in seconds, and cuts it to five minutes. A date is ignored.
pub(crate) fn parse_retry_after(value: &str) -> Option<Duration> {
    let seconds: u64 = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}
