//! Errors of lists and watches.

use std::io;

use kube::core::Status;

use super::health::Obstacle;
use super::stream::EventError;
use crate::protobuf;

/// Why a list or a watch failed.
#[derive(Debug)]
pub(crate) struct Error {
    cause: Cause,
    message: String,
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The server has answered with an error of this HTTP status.
    Status(u16),
    /// The answer has no end, perhaps in the middle of a line.
    Cut,
    Other,
}

impl Error {
    /// Returns an error without a status.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            cause: Cause::Other,
            message: message.into(),
        }
    }

    /// Returns an error with all its causes, in one line.
    pub(super) fn of(error: &dyn std::error::Error) -> Self {
        Self::new(chain(error))
    }

    /// Whether the connection has ended before the answer: the server ends or restarts, or a load balancer closes what is idle.
    pub(super) fn is_cut(&self) -> bool {
        self.cause == Cause::Cut
    }

    /// Whether the position in the stream of events has expired, so that only a new list shows what has changed. If it counted as
    /// another error, the same position would be requested indefinitely.
    pub(super) fn is_expired(&self) -> bool {
        self.cause == Cause::Status(410)
    }

    /// Whether the server has just begun to serve the kind. It opens the storage of a custom resource at the first request, and
    /// refuses watches until it has it, some milliseconds later.
    pub(super) fn is_of_a_new_kind(&self) -> bool {
        self.cause == Cause::Status(429) && self.message.contains("storage is (re)initializing")
    }

    /// Returns what keeps the watch from working.
    pub(super) const fn obstacle(&self) -> Obstacle {
        match self.cause {
            Cause::Status(401 | 403) => Obstacle::Denied,
            Cause::Status(404) => Obstacle::NotServed,
            _ => Obstacle::Server,
        }
    }

    /// Returns the message for a kind.
    pub(super) fn message(&self, resource: &str) -> String {
        let custom = crd::Names::ALL.into_iter().find(|names| names.plural == resource);
        match custom.filter(|_| self.cause == Cause::Status(404)) {
            Some(crd::Names { kind, .. }) => {
                format!(
                    "the {kind} API is not installed in this cluster; run: kubectl appdeploy install (or make install)"
                )
            }
            None => self.message.clone(),
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self {
            cause: Cause::Status(status.code),
            message: status.message,
        }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => (*status).into(),
            error => Self::of(&error),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self {
            cause: if error.is_eof() { Cause::Cut } else { Cause::Other },
            message: format!("invalid answer: {error}"),
        }
    }
}

impl From<protobuf::Error> for Error {
    fn from(error: protobuf::Error) -> Self {
        Self::new(format!("invalid answer: {error}"))
    }
}

impl From<EventError<kube::Error>> for Error {
    fn from(error: EventError<kube::Error>) -> Self {
        Self {
            cause: if ends_early(&error) { Cause::Cut } else { Cause::Other },
            message: chain(&error),
        }
    }
}

/// Whether a body had no end. hyper reports this of a chunked body only in the text.
fn ends_early(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_eof = |error: &(dyn std::error::Error + 'static)| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
    };
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(is_eof) || chain(error).contains("unexpected EOF during chunk")
}

/// Returns an error with all its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16) -> Error {
        Status::failure("refused", "Any").with_code(code).into()
    }

    #[test]
    fn status_decides_what_follows() {
        let all: Vec<(u16, bool, Obstacle)> = [400, 401, 403, 404, 409, 410, 422, 429, 500]
            .map(|code| {
                let error = refusal(code);
                (code, error.is_expired(), error.obstacle())
            })
            .into();
        let expected = [
            (400, false, Obstacle::Server),
            (401, false, Obstacle::Denied),
            (403, false, Obstacle::Denied),
            (404, false, Obstacle::NotServed),
            (409, false, Obstacle::Server),
            (410, true, Obstacle::Server),
            (422, false, Obstacle::Server),
            (429, false, Obstacle::Server),
            (500, false, Obstacle::Server),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn only_the_opening_of_a_storage_is_of_a_new_kind() {
        let of = |code, message: &str| Error::from(Status::failure(message, "Any").with_code(code));
        assert!(of(429, "storage is (re)initializing").is_of_a_new_kind());
        assert!(!of(429, "too many requests, please try again later").is_of_a_new_kind());
        assert!(!of(500, "storage is (re)initializing").is_of_a_new_kind());
    }

    #[test]
    fn missing_kind_names_the_command_that_installs_it() {
        let message = refusal(404).message("appdeploys");
        assert!(message.contains("kubectl appdeploy install"), "{message}");
        assert_eq!(refusal(404).message("deployments"), "refused");
        assert_eq!(refusal(403).message("appdeploys"), "refused");
    }
}
