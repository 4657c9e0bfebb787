//! The state of an object in one of five words, from its status: a label of metrics.

use crd::status::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Primary, Root};

/// The state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// It is as wanted.
    Ready,
    /// It is changing, and needs no action.
    Progressing,
    /// It is not as wanted, which may pass.
    Failing,
    /// A user must change something.
    Stalled,
    /// It has no status yet.
    Untold,
}

impl ReadyState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Ready,
        Self::Progressing,
        Self::Failing,
        Self::Stalled,
        Self::Untold,
    ];

    /// Returns the state of a cached object.
    #[must_use]
    pub fn of<K: Primary>(root: &Root<K>) -> Self {
        match root {
            Root::Readable(object) => object.status().map_or(Self::Untold, |status| {
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
            Self::Untold => "untold",
        }
    }
}

/// Returns the state for these conditions, and for whether the status has a cause. The worst state comes first: a stalled object
/// may still have pods that serve. `Reconciling` is true of objects that progress and of objects that fail in a way that may pass;
/// the latter have a cause.
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
        ReadyState::Untold
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
            (ReadyState::Untold, vec![], false),
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
