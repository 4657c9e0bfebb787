//! What may happen to one call, or to one watch.

use std::fmt;

use super::call::Call;
use fault_proxy::{Action, Answer, Point, Verb};

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The operator is killed when the call is as far, and started again.
    Crash(Point),
    /// The operator is killed while the call is on its way, and the call arrives when the next one has read
    /// everything.
    Late,
    /// The API server is not asked, and the answer is this HTTP status.
    Refused(u16),
    /// The answer is this HTTP status, although it is done.
    RefusedAfter(u16),
    /// The connection is reset before the API server hears of the call.
    Reset,
    /// The connection ends after the API server did it, and before it answers.
    Lost,
    /// The answer breaks off.
    Truncated,
    /// No answer comes, and the API server does not hear of the call.
    Hangs,
    /// It is done, and no answer comes.
    HangsAfter,
    /// A watch tells nothing during a step of the scenario, and everything after it.
    Frozen,
    /// A watch breaks before a step, and can't be opened again until after it. Then its place is forgotten, so that
    /// what happened meanwhile is nowhere to be read but in a new list.
    Gap,
    /// After all steps the operator starts again, and is given a list as it was at the start of the run. Where another one
    /// stands by, that one does not hear of the last step, and then has to lead.
    Stale,
}

impl Fault {
    /// Returns what may happen to a call.
    #[must_use]
    pub fn of(call: &Call) -> Vec<Self> {
        let mut faults = Vec::new();
        if call.is_write() {
            faults.extend([Point::Sent, Point::Done, Point::Answered].map(Self::Crash));
            faults.extend([Self::RefusedAfter(504), Self::HangsAfter]);
            faults.extend((call.verb == Verb::Create).then_some(Self::Late));
        }
        faults.extend([409, 410, 429, 500, 503, 504].map(Self::Refused));
        faults.extend([Self::Reset, Self::Lost, Self::Truncated, Self::Hangs]);
        if call.verb == Verb::Watch && call.nth == 1 {
            faults.extend([Self::Frozen, Self::Gap, Self::Stale]);
        }
        faults
    }

    /// Returns whether nothing goes on before somebody has lost their patience.
    #[must_use]
    pub fn is_slow(self) -> bool {
        matches!(self, Self::Hangs | Self::HangsAfter)
    }

    /// Returns what the proxy does with the call; nothing if it is about more than one call.
    #[must_use]
    pub fn action(self) -> Option<Action> {
        Some(match self {
            Self::Crash(point) => Action::Stop(point),
            Self::Late => Action::Hold,
            Self::Refused(status) => Action::Answer(refusal(status)),
            Self::RefusedAfter(status) => Action::ForwardThenAnswer(refusal(status)),
            Self::Reset => Action::Reset,
            Self::Lost => Action::ForwardThenDisconnect,
            Self::Truncated => Action::Truncate(10),
            Self::Hangs => Action::Hang,
            Self::HangsAfter => Action::ForwardThenHang,
            Self::Frozen | Self::Gap | Self::Stale => return None,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(Point::Sent) => write!(out, "crash before"),
            Self::Crash(Point::Done) => write!(out, "crash unanswered"),
            Self::Crash(Point::Answered) => write!(out, "crash after"),
            Self::Late => write!(out, "late after a crash"),
            Self::Refused(status) => write!(out, "{status}"),
            Self::RefusedAfter(status) => write!(out, "{status} but done"),
            Self::Reset => write!(out, "reset"),
            Self::Lost => write!(out, "done but lost"),
            Self::Truncated => write!(out, "truncated"),
            Self::Hangs => write!(out, "hangs"),
            Self::HangsAfter => write!(out, "done but hangs"),
            Self::Frozen => write!(out, "frozen"),
            Self::Gap => write!(out, "unobserved"),
            Self::Stale => write!(out, "stale"),
        }
    }
}

/// Returns a refusal as the API server words it.
fn refusal(status: u16) -> Answer {
    let (reason, message) = match status {
        409 => (
            "Conflict",
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
        410 => ("Expired", "too old resource version"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        _ => ("InternalError", "an internal error occurred"),
    };
    let answer = Answer::refusal(status, reason, message);
    if status == 429 {
        answer.header("Retry-After", "1")
    } else {
        answer
    }
}
