//! Conditions of a status, each with the time of its last transition.

use crd::status::{MAX_MESSAGE, condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::diagnose::Diagnosis;

/// Whether the Ready condition is True.
pub(crate) fn is_ready(conditions: &[Condition]) -> bool {
    let is_ready = |c: &Condition| c.type_ == condition::READY && c.status == "True";
    conditions.iter().any(is_ready)
}

/// Builds conditions, each with the time of its last transition.
pub(crate) struct Conditions<'a> {
    /// The stored conditions.
    pub before: &'a [Condition],
    /// The generation of the object.
    pub generation: Option<i64>,
    /// The current time.
    pub now: Timestamp,
}

impl Conditions<'_> {
    /// Returns Ready, and Reconciling or Stalled.
    pub fn of(&self, found: &Diagnosis) -> Vec<Condition> {
        let Diagnosis {
            reason,
            message,
            stalled,
            ..
        } = found;
        let stalled = *stalled;
        let reconciling = !stalled && !reason.is_ready();
        let ready = match reason {
            reason if reason.is_ready() => "True",
            reason if reason.is_unknown() => "Unknown",
            _ => "False",
        };
        let mut conditions = vec![self.with_status(condition::READY, ready, reason.as_str(), message)];
        if reconciling {
            conditions.push(self.one(condition::RECONCILING, true, reason.as_str(), message));
        }
        if stalled {
            conditions.push(self.one(condition::STALLED, true, reason.as_str(), message));
        }
        conditions
    }

    /// Returns these conditions together with those of other controllers, in the stored order, so that another writer that
    /// changes only the order causes no write.
    pub fn with_other_conditions(&self, mut ours: Vec<Condition>) -> Vec<Condition> {
        let mut all = Vec::new();
        for stored in self.before {
            if let Some(at) = ours.iter().position(|condition| condition.type_ == stored.type_) {
                all.push(ours.remove(at));
            } else if !condition::OURS.contains(&stored.type_.as_str()) {
                all.push(stored.clone());
            }
        }
        all.extend(ours);
        all
    }

    /// Returns a condition with status True or False.
    pub fn one(&self, type_: &str, is: bool, reason: &str, message: &str) -> Condition {
        self.with_status(type_, if is { "True" } else { "False" }, reason, message)
    }

    fn with_status(&self, type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        let since = match self.before.iter().find(|c| c.type_ == type_) {
            Some(before) if before.status == status => before.last_transition_time.clone(),
            // Whole seconds, as they are stored: with a fraction, the status would differ from the stored one.
            _ => Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)),
        };
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.chars().take(MAX_MESSAGE).collect(),
            last_transition_time: since,
            observed_generation: self.generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reason::Reason;

    fn condition(type_: &str, message: &str) -> Condition {
        let condition = json!({"type": type_, "status": "True", "reason": "Because", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        serde_json::from_value(condition).unwrap()
    }

    #[test]
    fn ready_is_unknown_if_the_state_is_not_known() {
        let make = Conditions {
            before: &[],
            generation: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let ready = |reason| {
            let found = Diagnosis {
                reason,
                message: String::new(),
                next: None,
                stalled: false,
            };
            make.of(&found).remove(0).status
        };
        for (reason, status) in [
            (Reason::Available, "True"),
            (Reason::Progressing, "False"),
            (Reason::CrashLoop, "False"),
            (Reason::WatchFailed, "Unknown"),
            (Reason::ApiUnavailable, "Unknown"),
            (Reason::ReconcileTimeout, "Unknown"),
            (Reason::InternalError, "Unknown"),
        ] {
            assert_eq!(ready(reason), status, "{reason:?}");
        }
    }

    #[test]
    fn message_is_not_longer_than_the_schema_accepts() {
        let make = Conditions {
            before: &[],
            generation: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let longest = "ä".repeat(MAX_MESSAGE);
        assert_eq!(make.one("Ready", true, "Because", &longest).message, longest);
        assert_eq!(
            make.one("Ready", true, "Because", &(longest.clone() + "…")).message,
            longest
        );
    }

    #[test]
    fn conditions_of_other_controllers_keep_their_place() {
        let before = [
            condition("example.com/Scanned", "clean"),
            condition("Stalled", "old"),
            condition("Ready", "old"),
            condition("example.com/Audited", "yes"),
        ];
        let make = Conditions {
            before: &before,
            generation: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let ours = vec![condition("Ready", "new"), condition("Exposed", "new")];
        let all = make.with_other_conditions(ours);
        let found: Vec<_> = all.iter().map(|c| (c.type_.as_str(), c.message.as_str())).collect();
        let expected = [
            ("example.com/Scanned", "clean"),
            ("Ready", "new"),
            ("example.com/Audited", "yes"),
            ("Exposed", "new"),
        ];
        assert_eq!(found, expected, "Stalled is not true any more");
    }
}
