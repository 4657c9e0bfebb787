//! The status of an object whose reconcile panicked or timed out.
//!
//! Only the outcome is computed, so that the same panic does not happen again. All other fields keep their stored values.

use crd::status::condition;
use crd::{AppDeploy, AppDeployStatus, Cause, PodSet, PodSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::Failure;
use crate::conditions::Conditions;
use crate::diagnose::{Subject, diagnose_failure};

/// Returns the status of an AppDeploy whose reconcile did not finish.
#[must_use]
pub fn app(app: &AppDeploy, failure: &Failure, now: Timestamp) -> AppDeployStatus {
    let stored = app.status.clone().unwrap_or_default();
    let (cause, conditions) = outcome(crd::Kind::AppDeploy, &app.metadata, &stored.conditions, failure, now);
    AppDeployStatus {
        observed_generation: app.metadata.generation,
        cause: Some(cause),
        conditions,
        ..stored
    }
}

/// Returns the status of a `PodSet` whose reconcile did not finish.
#[must_use]
pub fn podset(set: &PodSet, failure: &Failure, now: Timestamp) -> PodSetStatus {
    let stored = set.status.clone().unwrap_or_default();
    let (cause, conditions) = outcome(crd::Kind::PodSet, &set.metadata, &stored.conditions, failure, now);
    PodSetStatus {
        observed_generation: set.metadata.generation,
        cause: Some(cause),
        conditions,
        ..stored
    }
}

fn outcome(
    kind: crd::Kind,
    meta: &ObjectMeta,
    before: &[Condition],
    failure: &Failure,
    now: Timestamp,
) -> (Cause, Vec<Condition>) {
    let name = meta.name.as_deref().unwrap_or_default();
    let subject = Subject::named(kind, name, meta.namespace.as_deref().unwrap_or_default());
    let found = diagnose_failure(subject, failure);
    let make = Conditions {
        before,
        generation: meta.generation,
        now,
    };
    let mut conditions = make.of(&found);
    let is_outcome = |type_: &str| [condition::READY, condition::RECONCILING, condition::STALLED].contains(&type_);
    conditions.extend(before.iter().filter(|condition| !is_outcome(&condition.type_)).cloned());
    let cause = Cause {
        reason: found.reason.as_str().to_owned(),
        message: found.message,
        next: found.next.map(|next| next.to_string()),
    };
    (cause, conditions)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn summary(conditions: &[Condition]) -> Vec<(&str, &str, &str)> {
        conditions
            .iter()
            .map(|condition| (&*condition.type_, &*condition.status, &*condition.reason))
            .collect()
    }

    #[test]
    fn everything_but_the_outcome_is_kept() {
        let before: AppDeploy = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "generation": 4, "uid": "u1"},
            "spec": {"image": "nginx"},
            "status": {"observedGeneration": 3, "replicas": 2, "readyReplicas": 2, "url": "http://web.shop/", "conditions": [
                {"type": "Ready", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Exposed", "status": "True", "reason": "AddressPublished", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ]}
        }))
        .unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let after = app(&before, &Failure::Panicked, now);
        assert_eq!(
            summary(&after.conditions),
            [
                ("Ready", "Unknown", "InternalError"),
                ("Reconciling", "True", "InternalError"),
                ("Exposed", "True", "AddressPublished")
            ]
        );
        assert_eq!(after.conditions[0].last_transition_time, Time(now));
        assert_eq!(
            (after.observed_generation, after.replicas, after.url.as_deref()),
            (Some(4), Some(2), Some("http://web.shop/"))
        );
        let cause = after.cause.as_ref().unwrap();
        assert_eq!(cause.reason, "InternalError");
        assert!(cause.next.as_deref().unwrap().starts_with("kubectl logs "), "{cause:?}");
        // A second panic changes nothing.
        let again = AppDeploy {
            status: Some(after.clone()),
            ..before
        };
        let later = Timestamp::from_second(1_800_000_060).unwrap();
        assert_eq!(app(&again, &Failure::Panicked, later), after);
    }

    #[test]
    fn podset_without_a_status_gets_one() {
        let set: PodSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "generation": 1},
            "spec": {"replicas": 2, "template": {"image": "nginx"}}
        }))
        .unwrap();
        let status = podset(&set, &Failure::TimedOut { seconds: 25 }, Timestamp::UNIX_EPOCH);
        assert_eq!(
            summary(&status.conditions),
            [
                ("Ready", "Unknown", "ReconcileTimeout"),
                ("Reconciling", "True", "ReconcileTimeout")
            ]
        );
        assert!(status.cause.unwrap().message.contains("25 s"));
    }
}
