//! What a proxy does other than to forward: plain values, so that a test reads as its script.

use std::time::Duration;

use super::request::{Request, Verb};

/// Which requests, what to do with them, and with how many.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub(super) requests: Requests,
    pub(super) action: Action,
    pub(super) turn: Turn,
}

impl Rule {
    /// Returns a rule that does `action` with all of `requests`, as long as it stands.
    #[must_use]
    pub fn new(requests: Requests, action: Action) -> Self {
        Self {
            requests,
            action,
            turn: Turn::Every,
        }
    }

    /// Does it only with the `n`-th that matches, counted from 1 and from when the rule was added.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        Self {
            turn: Turn::Nth(n),
            ..self
        }
    }

    /// Does it only with the first `n` that match.
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Self {
            turn: Turn::First(n),
            ..self
        }
    }
}

/// With which of the matching ones a rule does something: of the requests, and for
/// [`Action::HideEvents`] of the events. [`Action::FreezeWatches`] is for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Every,
    Nth(usize),
    First(usize),
}

impl Turn {
    /// Returns whether it is the turn of the `n`-th.
    pub(super) fn is(self, n: usize) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(nth) => n == nth,
            Self::First(first) => n <= first,
        }
    }
}

/// Some of all requests: those that have everything that is named here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    verbs: Vec<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uri_contains: Option<String>,
}

impl Requests {
    /// Returns all requests.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the requests with one of `verbs`.
    #[must_use]
    pub fn with(verbs: &[Verb]) -> Self {
        Self {
            verbs: verbs.to_vec(),
            ..Self::default()
        }
    }

    /// Returns the requests that write.
    #[must_use]
    pub fn writes() -> Self {
        Self::with(&[
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
            Verb::DeleteCollection,
        ])
    }

    /// Keeps those on a resource, such as `deployments`, or a subresource, such as `appdeploys/status`.
    #[must_use]
    pub fn on(self, resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..self
        }
    }

    /// Keeps those in a namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self
        }
    }

    /// Keeps those that name an object in their path, which a create does not.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Keeps those with `text` in their path or query.
    #[must_use]
    pub fn with_uri_containing(self, text: &str) -> Self {
        Self {
            uri_contains: Some(text.to_owned()),
            ..self
        }
    }

    /// Returns whether `request` is one of them.
    #[must_use]
    pub fn contain(&self, request: &Request) -> bool {
        let wanted = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && wanted(&self.resource, &request.resource)
            && wanted(&self.namespace, &request.namespace)
            && wanted(&self.name, &request.name)
            && self
                .uri_contains
                .as_deref()
                .is_none_or(|text| format!("{}?{}", request.path, request.query).contains(text))
    }
}

/// What is done with a request, or with a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Answers in the API server's place, which never hears of it.
    Answer(Answer),
    /// Forwards, and answers something else: it is done, and the client is told that it is not.
    ForwardThenAnswer(Answer),
    /// Closes the connection without an answer; the API server never hears of it.
    Disconnect,
    /// Forwards, and closes the connection without an answer: it is done, and the client can't know.
    ForwardThenDisconnect,
    /// Answers nothing, for as long as the rule stands; then closes the connection.
    Hang,
    /// Waits, then forwards.
    Delay(Duration),
    /// Forwards, and changes what the API server answers. For answers that are JSON.
    Edit(Vec<Edit>),
    /// Opens the watch, and closes its connection after so many events.
    CutAfterEvents(usize),
    /// Lets nothing through to watches, also to those that are open, while their connections stay.
    /// When the rule is removed, they hear all that they missed.
    FreezeWatches,
    /// Hides events from watches, also from those that are open; they never hear of them.
    HideEvents(Events),
}

/// An answer that the API server did not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Answer {
    /// Returns an answer with `body`, which is said to be JSON.
    #[must_use]
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.into(),
        }
    }

    /// Returns a refusal as the API server writes it: `reason` is the word that clients go by,
    /// such as `Forbidden`, `TooManyRequests` or `Timeout`.
    #[must_use]
    pub fn refusal(status: u16, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": status,
        });
        Self::new(status, body.to_string())
    }

    /// Adds a header, such as `Retry-After`.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A change to an answer. One that can't be made, because there is nothing to change, turns the
/// answer into a 500 that says so: a mistake in a test is not to look like a healthy API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Puts a value in the place of what a JSON pointer points to, such as `/items/0/spec/replicas`.
    Replace(String, serde_json::Value),
    /// Leaves the item of this name out of a list.
    HideItem(String),
    /// Puts this text in the place of the whole body, be it JSON or not.
    Body(String),
}

/// Some of the events of a watch: those that have everything that is named here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    kind: Option<String>,
    name: Option<String>,
}

impl Events {
    /// Returns all events.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the events of one type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
    #[must_use]
    pub fn of_type(kind: &str) -> Self {
        Self {
            kind: Some(kind.to_owned()),
            name: None,
        }
    }

    /// Keeps the events of the object of this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Returns whether `event`, a line of a watch, is one of them.
    pub(super) fn contain(&self, event: &serde_json::Value) -> bool {
        let wanted = |wanted: &Option<String>, pointer: &str| {
            wanted.is_none() || event.pointer(pointer).and_then(serde_json::Value::as_str) == wanted.as_deref()
        };
        wanted(&self.kind, "/type") && wanted(&self.name, "/object/metadata/name")
    }
}
