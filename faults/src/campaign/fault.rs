//! Faults that can be injected into a call or a watch.

use std::fmt;

use super::call::Call;
use super::service::{self, ServiceError};
use super::transport::TransportFault;
use fault_proxy::{Action, Answer, Point, Verb};

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The operator is killed at this point of the call, and restarted.
    Crash(Point),
    /// The operator is killed while the call is in flight, and the call arrives when the next operator has listed
    /// everything.
    Late,
    /// The call is answered with this HTTP status and does not reach the API server.
    Refused(u16),
    /// The call is done, but answered with this HTTP status.
    RefusedAfter(u16),
    /// The connection is reset before the call reaches the API server.
    Reset,
    /// The call is done, and the connection ends before it is answered.
    Lost,
    /// The answer is truncated.
    Truncated,
    /// There is no answer, and the call does not reach the API server.
    Hangs,
    /// The call is done, and there is no answer.
    HangsAfter,
    /// A watch breaks after its first event.
    Cut,
    /// A watch is reset before each step, and continues after its last event. Others on the same connection are not reset.
    Interrupted,
    /// A watch that is open sends no more events, while others on the same connection do. It ends when the operator gives up.
    Stalled,
    /// A watch sends no events during a step of the scenario, and all of them after it.
    Frozen,
    /// A watch breaks before a step, and can't be restarted until after it. Then its resource version has expired, so the
    /// events in the meantime are only visible in a new list.
    Gap,
    /// The operator restarts before the last step and after it, and then its API server has an old cache: a list that asks for any
    /// version (`resourceVersion=0`) is answered as before the last step, and the watch lags behind. With a standby, the watch of the
    /// standby lags behind in the last step, and then the standby becomes the leader.
    Stale,
    /// The connection, or a stream of it, fails.
    Transport(TransportFault),
    /// The queue service answers with this error, and does not carry out the call.
    Service(ServiceError),
    /// The queue service carries out the call, and answers with this error.
    ServiceAfter(ServiceError),
    /// The call arrives at the queue service after the operator has given up.
    ArrivesLate,
    /// The answer of the queue service takes some seconds.
    Slow,
    /// This and the next reads are answered as before the last change.
    Lags,
}

impl Fault {
    /// Returns the faults that can be injected into a call.
    #[must_use]
    pub fn of(call: &Call) -> Vec<Self> {
        if call.is_outside() {
            return of_queue_service(call);
        }
        let mut faults = Vec::new();
        if call.is_write() {
            faults.extend([Point::Sent, Point::Done, Point::Answered].map(Self::Crash));
            faults.extend([Self::RefusedAfter(504), Self::HangsAfter]);
            faults.extend((call.verb == Verb::Create).then_some(Self::Late));
        }
        faults.extend([409, 410, 429, 500, 503, 504].map(Self::Refused));
        faults.extend([Self::Reset, Self::Lost, Self::Truncated, Self::Hangs]);
        if call.verb == Verb::Watch && call.nth == 1 {
            faults.extend([
                Self::Cut,
                Self::Interrupted,
                Self::Stalled,
                Self::Frozen,
                Self::Gap,
                Self::Stale,
            ]);
        }
        faults.extend(TransportFault::of(call).into_iter().map(Self::Transport));
        faults
    }

    /// Returns whether it has no effect on a watch without events.
    pub(super) fn needs_events(self) -> bool {
        matches!(self, Self::Cut | Self::Frozen | Self::Stalled)
    }

    /// Returns whether it can be injected into the calls of the plugin. The plugin uses HTTP/1.1, and is too short for faults of whole
    /// watches.
    pub(super) fn concerns_plugin(self) -> bool {
        let is_of_operator = matches!(self, Self::Late | Self::Transport(_));
        self.action().is_some() && !is_of_operator
    }

    /// Returns whether the run only continues after a deadline has expired.
    #[must_use]
    pub fn is_slow(self) -> bool {
        match self {
            Self::Hangs | Self::HangsAfter | Self::ArrivesLate | Self::Stalled => true,
            Self::Transport(fault) => fault.is_slow(),
            _ => false,
        }
    }

    /// Returns the proxy's action for the call; `None` if the fault is about more than one call.
    #[must_use]
    pub fn action(self) -> Option<Action> {
        Some(match self {
            Self::Crash(point) => Action::Stop(point),
            Self::Late | Self::ArrivesLate => Action::Hold,
            Self::Refused(status) => Action::Answer(refusal(status)),
            Self::RefusedAfter(status) => Action::ForwardThenAnswer(refusal(status)),
            Self::Reset => Action::Reset,
            Self::Lost => Action::ForwardThenDisconnect,
            Self::Truncated => Action::Truncate(10),
            Self::Cut => Action::CutAfterEvents(1),
            Self::Transport(fault) => fault.action(),
            Self::Hangs => Action::Hang,
            Self::HangsAfter => Action::ForwardThenHang,
            Self::Service(error) => Action::Answer(error.answer()),
            Self::ServiceAfter(error) => Action::ForwardThenAnswer(error.answer()),
            Self::Slow => Action::Delay(service::SLOW),
            Self::Lags => Action::Lag(service::missing()),
            Self::Interrupted | Self::Stalled | Self::Frozen | Self::Gap | Self::Stale => return None,
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
            Self::Cut => write!(out, "cut"),
            Self::Interrupted => write!(out, "interrupted"),
            Self::Stalled => write!(out, "stalled"),
            Self::Transport(fault) => write!(out, "{fault}"),
            Self::Frozen => write!(out, "frozen"),
            Self::Gap => write!(out, "unobserved"),
            Self::Stale => write!(out, "stale"),
            Self::Service(error) => write!(out, "{error}"),
            Self::ServiceAfter(error) => write!(out, "{error} but done"),
            Self::ArrivesLate => write!(out, "late"),
            Self::Slow => write!(out, "slow"),
            Self::Lags => write!(out, "lags"),
        }
    }
}

/// Returns the faults that can be injected into a call of a queue service.
fn of_queue_service(call: &Call) -> Vec<Fault> {
    let mut faults = [Point::Sent, Point::Done].map(Fault::Crash).to_vec();
    if call.is_write() {
        faults.extend([
            Fault::Crash(Point::Answered),
            Fault::Late,
            Fault::ArrivesLate,
            Fault::ServiceAfter(ServiceError::Internal),
            Fault::HangsAfter,
        ]);
    } else {
        faults.push(Fault::Lags);
    }
    if call.resource == "CreateQueue" {
        faults.push(Fault::Service(ServiceError::DeletedRecently));
    }
    let errors = [
        ServiceError::Throttled,
        ServiceError::Denied,
        ServiceError::Internal,
        ServiceError::Unavailable,
    ];
    faults.extend(errors.map(Fault::Service));
    faults.extend([Fault::Slow, Fault::Reset, Fault::Lost, Fault::Truncated, Fault::Hangs]);
    faults
}

/// Returns an error in the format of the API server.
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
