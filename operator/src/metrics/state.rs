//! How an object is, in one of five words: what its own status says, small enough for a label.

use crd::status::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::primary::{Primary, Root};

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is as wanted.
    Ready,
    /// It is on its way, and nobody needs to do anything.
    Progressing,
    /// It is not as wanted, which may pass.
    Failing,
    /// Somebody has to change something.
    Stalled,
    /// Nothing was said of it yet.
    Untold,
}

impl State {
    /// All there are.
    pub const ALL: [Self; 5] = [
        Self::Ready,
        Self::Progressing,
        Self::Failing,
        Self::Stalled,
        Self::Untold,
    ];

    /// Returns how the object is that is stored so.
    #[must_use]
    pub fn of<K: Primary>(root: &Root<K>) -> Self {
        match root {
            Root::Readable(object) => object.status().map_or(Self::Untold, |status| {
                told(K::conditions(status), K::cause(status).is_some())
            }),
            Root::Unreadable { .. } => Self::Stalled,
        }
    }

    /// Returns the word for it.
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

/// Returns what conditions tell, and whether a cause is named beside them. The worst first: what is stalled may still have
/// pods that serve. `Reconciling` does not tell what is on its way from what fails in a way that may pass; a cause does.
fn told(conditions: &[Condition], has_cause: bool) -> State {
    let of = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let is = |kind: &str| of(kind).is_some_and(|condition| condition.status == "True");
    if is(condition::STALLED) {
        State::Stalled
    } else if is(condition::READY) {
        State::Ready
    } else if has_cause {
        State::Failing
    } else if of(condition::READY).is_some() {
        State::Progressing
    } else {
        State::Untold
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
    fn conditions_and_a_cause_are_one_word() {
        let ready = |status| condition(condition::READY, status);
        let [reconciling, stalled] = [condition::RECONCILING, condition::STALLED].map(|kind| condition(kind, "True"));
        for (state, conditions, has_cause) in [
            (State::Untold, vec![], false),
            (State::Ready, vec![ready("True")], false),
            (State::Progressing, vec![ready("False"), reconciling.clone()], false),
            (State::Failing, vec![ready("False"), reconciling], true),
            (State::Stalled, vec![ready("False"), stalled], true),
            (
                State::Ready,
                vec![ready("True"), condition(condition::STALLED, "False")],
                false,
            ),
        ] {
            assert_eq!(told(&conditions, has_cause), state, "{conditions:?}");
        }
    }
}
