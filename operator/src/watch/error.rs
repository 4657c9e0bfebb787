//! Errors of lists and watches.

use kube::core::Status;

use super::health::Obstacle;
use super::lines::LineError;

/// Why a list or a watch failed.
#[derive(Debug)]
pub(super) struct Error {
    /// The HTTP status, if the server has answered with an error.
    code: Option<u16>,
    message: String,
    /// Whether the server does not send the initial events of a watch.
    lacks_initial_events: bool,
}

impl Error {
    /// Returns an error without a status.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            lacks_initial_events: false,
        }
    }

    /// Returns the error of a server that has begun a watch and does not send its initial events.
    pub(super) fn without_initial_events(message: impl Into<String>) -> Self {
        Self {
            lacks_initial_events: true,
            ..Self::new(message)
        }
    }

    /// Returns an error with all its causes, in one line.
    pub(super) fn of(error: &dyn std::error::Error) -> Self {
        Self::new(chain(error))
    }

    /// Whether the position in the stream of events has expired, so that only a new list shows what has changed. If it counted as
    /// another error, the same position would be requested indefinitely.
    pub(super) fn is_expired(&self) -> bool {
        self.code == Some(410)
    }

    /// Whether the server may list in pages, although it does not begin a watch with initial events: it refuses the parameters
    /// (400, 422; proxies also 403) or ignores them.
    pub(super) const fn refuses_initial_events(&self) -> bool {
        self.lacks_initial_events || matches!(self.code, Some(400 | 403 | 422))
    }

    /// Returns what keeps the watch from working.
    pub(super) const fn obstacle(&self) -> Obstacle {
        match self.code {
            Some(401 | 403) => Obstacle::Denied,
            Some(404) => Obstacle::NotServed,
            _ => Obstacle::Server,
        }
    }

    /// Returns the message for a kind.
    pub(super) fn message(&self, resource: &str) -> String {
        let custom = crd::Names::ALL.into_iter().find(|names| names.plural == resource);
        match custom.filter(|_| self.code == Some(404)) {
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
            code: Some(status.code),
            ..Self::new(status.message)
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
        Self::new(format!("invalid answer: {error}"))
    }
}

impl From<LineError<kube::Error>> for Error {
    fn from(error: LineError<kube::Error>) -> Self {
        Self::of(&error)
    }
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
        let all: Vec<(u16, bool, bool, Obstacle)> = [400, 401, 403, 404, 409, 410, 422, 429, 500]
            .map(|code| {
                let error = refusal(code);
                (
                    code,
                    error.is_expired(),
                    error.refuses_initial_events(),
                    error.obstacle(),
                )
            })
            .into();
        let expected = [
            (400, false, true, Obstacle::Server),
            (401, false, false, Obstacle::Denied),
            (403, false, true, Obstacle::Denied),
            (404, false, false, Obstacle::NotServed),
            (409, false, false, Obstacle::Server),
            (410, true, false, Obstacle::Server),
            (422, false, true, Obstacle::Server),
            (429, false, false, Obstacle::Server),
            (500, false, false, Obstacle::Server),
        ];
        assert_eq!(all, expected);
        assert!(!Error::new("cut").refuses_initial_events());
        assert!(Error::without_initial_events("ignored").refuses_initial_events());
    }

    #[test]
    fn missing_kind_names_the_command_that_installs_it() {
        let message = refusal(404).message("appdeploys");
        assert!(message.contains("kubectl appdeploy install"), "{message}");
        assert_eq!(refusal(404).message("deployments"), "refused");
        assert_eq!(refusal(403).message("appdeploys"), "refused");
    }
}
