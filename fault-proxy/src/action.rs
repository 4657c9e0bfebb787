//! What a proxy does other than to forward: plain values, so that a test reads as its script.

use std::time::Duration;

use crate::selection::Events;

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
    /// Resets the connection, as a machine does that knows nothing of it; the API server never hears of the request.
    Reset,
    /// Forwards, and breaks the connection after so many bytes of the answer's body.
    Truncate(usize),
    /// Answers nothing, for as long as the rule stands; then closes the connection.
    Hang,
    /// Forwards, and answers nothing for as long as the rule stands; then closes the connection.
    ForwardThenHang,
    /// Holds the request for as long as the rule stands; then forwards it, also when the client that sent it is
    /// gone: a write that arrives late.
    Hold,
    /// Waits, then forwards.
    Delay(Duration),
    /// Forwards, and changes what the API server answers. For answers that are JSON.
    Edit(Vec<Edit>),
    /// Answers a list as the `n`-th of the same lists was answered, counted from 1 and from the start of the
    /// proxy, as an API server does that lags behind. A watch from there tells what happened since.
    ServeList(usize),
    /// Here the client stops: once the request is as far, nothing else of the client gets through for as long
    /// as the rule stands, and a test may kill the client where it wants it to have died.
    /// [`Proxy::wait_for_hits`](super::Proxy::wait_for_hits) tells when it is as far.
    Stop(Point),
    /// Opens the watch, and closes its connection after so many events.
    CutAfterEvents(usize),
    /// Lets nothing through to watches, also to those that are open, while their connections stay.
    /// When the rule is removed, they hear all that they missed.
    FreezeWatches,
    /// Hides events from watches, also from those that are open; they never hear of them.
    HideEvents(Events),
    /// Tells after an event all that the watch has told before, from the first to that event, once more.
    Replay(Events),
}

impl Action {
    /// Returns the events that it is about, if it is not about requests.
    pub(crate) fn events(&self) -> Option<&Events> {
        match self {
            Self::HideEvents(events) | Self::Replay(events) => Some(events),
            _ => None,
        }
    }

    /// Returns whether it is about what watches tell, and not about requests.
    pub(crate) fn is_of_events(&self) -> bool {
        matches!(self, Self::FreezeWatches) || self.events().is_some()
    }
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// The API server has not heard of it, and never will.
    Sent,
    /// It is done, and the client does not know.
    Done,
    /// It is done, and the client knows.
    Answered,
}

/// An answer that the API server did not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
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
