//! The actions of a proxy other than forwarding: plain values, so that a test reads as its script.
//!
//! Closing the connection of a request or a watch means with HTTP/2: its stream is reset with `INTERNAL_ERROR`, and others on the
//! same connection continue.

use std::time::Duration;

use h2::Reason;

use crate::request::{Request, Transport};
use crate::selection::Events;

/// The action for a request or a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Answers instead of the API server, which never receives the request.
    Answer(Answer),
    /// Forwards, and answers something else: the request is done, and the client receives an error.
    ForwardThenAnswer(Answer),
    /// Closes the connection without an answer; the API server never receives the request.
    Disconnect,
    /// Forwards, and closes the connection without an answer: the request is done, and the client can't know.
    ForwardThenDisconnect,
    /// Resets the connection, also with HTTP/2; the API server never receives the request.
    Reset,
    /// Forwards, and closes the connection after this many bytes of the answer's body.
    Truncate(usize),
    /// Does not answer while the rule exists; then closes the connection.
    Hang,
    /// Forwards, and does not answer while the rule exists; then closes the connection.
    ForwardThenHang,
    /// Forwards, and answers without a body while the rule exists; then sends the body. A watch begins and sends no events.
    StallAnswer,
    /// Shuts down the connection with a GOAWAY frame. Requests that it includes are answered, and the connection stays open for
    /// them. The API server never receives later ones of the same connection.
    GoAway(GoAway),
    /// Resets the stream of the request with this error code; the API server never receives the request.
    ResetStream(Reason),
    /// Leaves the client no window for the last byte of the request's body while the rule exists. Without it, the request is not
    /// complete, and is not forwarded.
    StallRequest,
    /// Holds the request while the rule exists; then forwards it, even if its client no longer exists: a write that
    /// arrives late.
    Hold,
    /// Waits, then forwards.
    Delay(Duration),
    /// Forwards, and changes the API server's answer. Only for JSON.
    Edit(Vec<Edit>),
    /// Answers a list with `resourceVersion=0` like the `n`-th of the same lists, counted from 1 and from the start of the proxy, as
    /// an API server with an old cache does. A watch from there sends the events since then. Other lists must be as current as etcd,
    /// and are forwarded.
    ServeList(usize),
    /// Answers a read of a queue service like the last of the same reads with another answer, as a service does whose
    /// changes take time to be visible; and with this answer if there was none.
    Lag(Answer),
    /// Stops the client at this point: no other request of the client is forwarded while the rule exists, and a test can
    /// kill the client here. [`Proxy::wait_for_hits`](super::Proxy::wait_for_hits) waits for this point.
    Stop(Point),
    /// Opens the watch, and closes its connection after this many events.
    CutAfterEvents(usize),
    /// Sends no events to watches, including open ones, while their connections stay open. When the rule is removed, they
    /// receive all events that they missed.
    FreezeWatches,
    /// Like [`Action::FreezeWatches`] for the watches that are open when the rule is added: they lag behind, while watches that begin
    /// later are current.
    FreezeOpenWatches,
    /// Hides events from watches, including open ones; they never receive them.
    HideEvents(Events),
    /// Sends all earlier events of the watch again after an event, up to that event.
    Replay(Events),
}

impl Action {
    /// Returns the events of the action, if it is not about requests.
    pub(crate) fn events(&self) -> Option<&Events> {
        match self {
            Self::HideEvents(events) | Self::Replay(events) => Some(events),
            _ => None,
        }
    }

    /// Returns whether it is about the events of watches, not about requests.
    pub(crate) fn is_of_events(&self) -> bool {
        self.freezes() || self.events().is_some()
    }

    /// Returns whether it holds events back.
    pub(crate) fn freezes(&self) -> bool {
        matches!(self, Self::FreezeWatches | Self::FreezeOpenWatches)
    }

    /// Returns whether it can be applied to a request.
    pub(crate) fn may_concern(&self, request: &Request) -> bool {
        match self {
            Self::ServeList(_) => request.may_be_answered_from_a_cache(),
            Self::GoAway(_) | Self::ResetStream(_) => request.transport != Transport::Http1,
            Self::StallRequest => request.transport == Transport::Http2WithoutEnd,
            _ => true,
        }
    }
}

/// The requests that a GOAWAY frame includes, because the server processes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoAway {
    /// The request of the rule, and earlier ones.
    Included,
    /// Only earlier ones: the request of the rule is in flight, and is excluded.
    Excluded,
}

/// A point in the life of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// The API server has not received it, and never will.
    Sent,
    /// It is done, and the client does not know.
    Done,
    /// It is done, and the client knows.
    Answered,
}

/// An answer that does not come from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Returns an answer with `body`, with the content type JSON.
    #[must_use]
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.into(),
        }
    }

    /// Returns an error in the format of the API server: `reason` is the reason that clients check, such as `Forbidden`,
    /// `TooManyRequests` or `Timeout`.
    #[must_use]
    pub fn refusal(status: u16, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": status,
        });
        Self::new(status, body.to_string())
    }

    /// Returns an error in the format of Amazon SQS, with a code such as `QueueDeletedRecently`.
    #[must_use]
    pub fn queue_error(status: u16, code: &str, message: &str) -> Self {
        let body = serde_json::json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": message});
        Self::new(status, body.to_string())
    }

    /// Returns whether both are the same answer: values are compared, not the order of fields.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let value = |answer: &Self| serde_json::from_str::<serde_json::Value>(&answer.body).ok();
        let is_same_value = value(self).is_some_and(|is| Some(is) == value(other));
        self.status == other.status && (is_same_value || self.body == other.body)
    }

    /// Adds a header, such as `Retry-After`.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A change to an answer. If it can't be applied, the answer becomes a 500 with the reason: a mistake in a test must not
/// look like a healthy API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Replaces the value at a JSON pointer, such as `/items/0/spec/replicas`.
    Replace(String, serde_json::Value),
    /// Removes the item of this name from a list.
    HideItem(String),
    /// Replaces the whole body, which does not have to be JSON.
    Body(String),
}
