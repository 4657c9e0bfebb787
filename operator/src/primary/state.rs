//! Summarizes the status of an object as one of five states, which is a label of metrics.

use crd::status::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Primary, Root};

/// The state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// Its condition Ready is true.
    Ready,
    /// It is not ready yet, and nothing has failed.
    Progressing,
    /// It is not ready because of a failure that may pass by itself.
    Failing,
    /// Its condition Stalled is true: it does not become ready until someone changes an object.
    Stalled,
    /// The operator has not written its status yet.
    NoStatus,
}

impl ReadyState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Ready,
        Self::Progressing,
        Self::Failing,
        Self::Stalled,
        Self::NoStatus,
    ];

    /// Returns the state of a cached object.
    #[must_use]
    pub fn of<K: Primary>(root: &Root<K>) -> Self {
        match root {
            Root::Readable(object) => object.status().map_or(Self::NoStatus, |status| {
                summarize(K::conditions(status), K::cause(status).is_some())
            }),
            Root::Unreadable { .. } => Self::Stalled,
        }
    }

    /// Returns the value of the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Progressing => "progressing",
            Self::Failing => "failing",
            Self::Stalled => "stalled",
            Self::NoStatus => "no_status",
        }
    }
}

/// Returns the state for the conditions of a status, and for whether it has a cause. `Stalled` comes first: the pods of a stalled
/// object may still be ready. `Reconciling` is true in both of the last cases; only a failure has a cause.
fn summarize(conditions: &[Condition], has_cause: bool) -> ReadyState {
    let of = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let is = |kind: &str| of(kind).is_some_and(|condition| condition.status == "True");
    if is(condition::STALLED) {
        ReadyState::Stalled
    } else if is(condition::READY) {
        ReadyState::Ready
    } else if has_cause {
        ReadyState::Failing
    } else if of(condition::READY).is_some() {
        ReadyState::Progressing
    } else {
        ReadyState::NoStatus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str) -> Condition {
        serde_json::from_value(serde_json::json!({
            "type": kind, "status": status, "reason": "Any", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn state_follows_from_conditions_and_cause() {
        let ready = |status| condition(condition::READY, status);
        let [reconciling, stalled] = [condition::RECONCILING, condition::STALLED].map(|kind| condition(kind, "True"));
        for (state, conditions, has_cause) in [
            (ReadyState::NoStatus, vec![], false),
            (ReadyState::Ready, vec![ready("True")], false),
            (
                ReadyState::Progressing,
                vec![ready("False"), reconciling.clone()],
                false,
            ),
            (ReadyState::Failing, vec![ready("False"), reconciling], true),
            (ReadyState::Stalled, vec![ready("False"), stalled], true),
            (
                ReadyState::Ready,
                vec![ready("True"), condition(condition::STALLED, "False")],
                false,
            ),
        ] {
            assert_eq!(summarize(&conditions, has_cause), state, "{conditions:?}");
        }
    }
}
