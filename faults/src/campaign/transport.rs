//! Faults of an HTTP/2 connection, which concern one stream or exclude some.

use std::fmt;

use fault_proxy::{Action, GoAway, Reason};

use super::call::Call;

/// A fault of an HTTP/2 connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransportFault {
    /// The server shuts down the connection, and answers this call and earlier ones.
    GoAway,
    /// The server shuts down the connection, and excludes this call, which it does not process, and later ones.
    GoAwayExcluding,
    /// The server refuses the stream of the call before it processes it.
    StreamRefused,
    /// The server resets the stream of the call and does not state whether it was processed.
    StreamReset,
    /// The server leaves no window for the end of the call's body, so the call is never complete.
    BodyStalled,
    /// The call is done, and the body of its answer does not arrive.
    AnswerStalled,
}

impl TransportFault {
    /// Returns the faults that can be injected into a call.
    pub(super) fn of(call: &Call) -> Vec<Self> {
        let mut faults = vec![
            Self::GoAway,
            Self::GoAwayExcluding,
            Self::StreamRefused,
            Self::StreamReset,
            Self::AnswerStalled,
        ];
        faults.extend(call.verb.is_write().then_some(Self::BodyStalled));
        faults
    }

    /// Returns whether the run only continues after a deadline has expired.
    pub(super) fn is_slow(self) -> bool {
        matches!(self, Self::BodyStalled | Self::AnswerStalled)
    }

    /// Returns the proxy's action for the call.
    pub(super) fn action(self) -> Action {
        match self {
            Self::GoAway => Action::GoAway(GoAway::Included),
            Self::GoAwayExcluding => Action::GoAway(GoAway::Excluded),
            Self::StreamRefused => Action::ResetStream(Reason::REFUSED_STREAM),
            Self::StreamReset => Action::ResetStream(Reason::INTERNAL_ERROR),
            Self::BodyStalled => Action::StallRequest,
            Self::AnswerStalled => Action::StallAnswer,
        }
    }
}

impl fmt::Display for TransportFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::GoAway => "GOAWAY",
            Self::GoAwayExcluding => "GOAWAY excludes it",
            Self::StreamRefused => "stream refused",
            Self::StreamReset => "stream reset",
            Self::BodyStalled => "stalled body",
            Self::AnswerStalled => "stalled answer",
        })
    }
}
