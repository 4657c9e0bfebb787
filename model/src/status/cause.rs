//! The cause in the status of an app.

use super::{Diagnosis, Reason, Subject};
use crate::children::{self, Health};
use crate::diagnose::{diagnose_failure, diagnosis};
use crate::{Failure, Observed, Valid};

/// Returns the state of an app: a failed write first, then the first unhealthy child in the order of [`Observed::kinds`].
#[must_use]
pub fn diagnose(
    subject: Subject<'_>,
    valid: Option<&Valid<'_>>,
    observed: &Observed,
    failures: &[Failure],
) -> Diagnosis {
    if subject.deleting {
        let kinds = observed.kinds.iter().copied();
        let kinds = kinds.filter(|kind| valid.is_some_and(|valid| !(kind.render)(valid).is_empty()));
        let message = format!(
            "it is being deleted, with its {}",
            children::names(&kinds.collect::<Vec<_>>())
        );
        return diagnosis(Reason::Deleting, &message, None);
    }
    if let Some(failure) = failures.first() {
        return diagnose_failure(subject, failure);
    }
    let Some(valid) = valid else {
        return diagnosis(Reason::Progressing, "the Deployment is being created", None);
    };
    let health = Health {
        subject,
        valid,
        observed,
    };
    let unhealthy = observed.kinds.iter().find_map(|kind| (kind.health)(health));
    unhealthy.unwrap_or_else(|| match observed.rollout().map_or(0, |rollout| rollout.wanted) {
        0 => diagnosis(Reason::ScaledToZero, "scaled to zero", None),
        1 => diagnosis(Reason::Available, "1 pod is ready", None),
        wanted => diagnosis(Reason::Available, &format!("{wanted} pods are ready"), None),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::children::{ChildState, DEPLOYMENT, Rollout};
    use crate::pod::{PodProblem, PodState, RecentRestart};
    use crate::{Child, ChildId, validate};

    fn pod(template: &str, created: i64, problem: Option<(Reason, &str)>) -> PodState {
        PodState {
            created,
            template: Some(template.to_owned()),
            problem: problem.map(|(reason, detail)| PodProblem::new(reason, detail)),
            ..PodState::default()
        }
    }

    fn rollout() -> Rollout {
        Rollout {
            observed: true,
            wanted: 2,
            replicas: 2,
            updated: 2,
            ..Rollout::default()
        }
    }

    fn reason(rollout: Rollout, pods: Vec<PodState>) -> (Reason, String) {
        let found = found(json!({"image": "nginx"}), rollout, pods);
        (found.reason, found.message)
    }

    fn found(spec: serde_json::Value, rollout: Rollout, pods: Vec<PodState>) -> Diagnosis {
        let app = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
        let app: crd::AppDeploy = serde_json::from_value(app).unwrap();
        let child = Child {
            state: ChildState::Rollout(Box::new(rollout)),
            ..Child::default()
        };
        let observed = Observed {
            children: vec![(ChildId::new(&DEPLOYMENT, "web"), child.into())],
            pods,
            ..Observed::default()
        };
        let valid = validate(&app).unwrap();
        diagnose(
            Subject::named(crd::Kind::AppDeploy, "web", "default"),
            Some(&valid),
            &observed,
            &[],
        )
    }

    const NOT_FOUND: Option<(Reason, &str)> = Some((Reason::ImageNotFound, "nginx:nope"));

    #[test]
    fn error_of_the_previous_spec_is_not_reported() {
        let fixed = Rollout {
            observed: false,
            refused: Some("quota".into()),
            overdue: true,
            ..rollout()
        };
        assert_eq!(reason(fixed, vec![pod("old", 1, NOT_FOUND)]).0, Reason::Progressing);
    }

    #[test]
    fn broken_pods_of_an_older_template_are_not_the_cause() {
        let pods = vec![pod("old", 1, NOT_FOUND), pod("new", 2, None)];
        assert_eq!(reason(rollout(), pods).0, Reason::Progressing);
        let pods = vec![pod("old", 1, None), pod("new", 2, NOT_FOUND)];
        assert_eq!(
            reason(rollout(), pods),
            (Reason::ImageNotFound, "image nginx:nope was not found".into())
        );
    }

    #[test]
    fn recreated_pod_of_an_older_template_is_not_the_newest() {
        let pods = vec![pod("old", 1, None), pod("new", 2, NOT_FOUND), pod("old", 3, None)];
        assert_eq!(reason(rollout(), pods).0, Reason::ImageNotFound);
    }

    #[test]
    fn evicted_pod_is_the_cause_until_it_is_replaced() {
        let evicted = PodState {
            finished: true,
            ..pod("a", 1, Some((Reason::Evicted, "disk")))
        };
        assert_eq!(reason(rollout(), vec![evicted.clone()]).0, Reason::Evicted);
        assert_eq!(
            reason(rollout(), vec![evicted, pod("a", 2, None)]).0,
            Reason::Progressing
        );
    }

    #[test]
    fn problem_that_needs_a_change_is_reported_first() {
        let pods = vec![
            pod("a", 1, Some((Reason::CrashLoop, "exit code 1"))),
            pod("a", 1, NOT_FOUND),
        ];
        assert_eq!(reason(rollout(), pods).0, Reason::ImageNotFound);
    }

    #[test]
    fn pod_that_crashes_is_reported_while_it_runs() {
        let complete = Rollout {
            available: 2,
            ready: 2,
            ..rollout()
        };
        let problem = PodProblem::new(Reason::CrashLoop, "exit code 3");
        let restarted = |until| PodState {
            recent_restart: Some(RecentRestart {
                until,
                problem: problem.clone(),
            }),
            ..pod("a", 1, None)
        };
        assert_eq!(reason(complete.clone(), vec![restarted(1)]).0, Reason::CrashLoop);
        assert_eq!(reason(complete, vec![restarted(0)]).0, Reason::Available);
    }

    #[test]
    fn pod_that_fails_is_reported_before_the_deployment_counts_it() {
        let complete = Rollout {
            available: 2,
            ready: 2,
            ..rollout()
        };
        let ended = pod("a", 1, Some((Reason::CrashLoop, "exit code 3")));
        assert_eq!(reason(complete, vec![ended]).0, Reason::CrashLoop);
    }

    #[test]
    fn old_and_new_ready_pods_are_counted_apart() {
        let message = |updated, replicas, ready, available| {
            let rollout = Rollout {
                replicas,
                updated,
                ready,
                available,
                ..rollout()
            };
            reason(rollout, vec![]).1
        };
        assert_eq!(message(1, 3, 2, 2), "1 of 2 pods run the new spec");
        assert_eq!(
            message(2, 3, 2, 2),
            "2 of 2 pods run the new spec, and 1 old pod serves until they are ready"
        );
        assert_eq!(
            message(2, 4, 3, 2),
            "2 of 2 pods run the new spec, and 2 old pods serve until they are ready"
        );
        assert_eq!(message(2, 2, 2, 1), "2 of 2 pods are ready, 1 for long enough");
        assert_eq!(message(2, 3, 1, 1), "1 of 2 pods are ready");
    }

    #[test]
    fn paused_rollout_is_reported_with_its_progress() {
        let paused = Rollout {
            paused: true,
            updated: 1,
            ready: 2,
            ..rollout()
        };
        let message = "the rollout is paused: 1 of 2 pods run the new spec";
        assert_eq!(reason(paused.clone(), vec![]), (Reason::Paused, message.into()));
        // A Deployment that was paused directly is resumed directly.
        let next = |spec| found(spec, paused.clone(), vec![]).next.unwrap().to_string();
        assert_eq!(
            [
                next(json!({"image": "nginx"})),
                next(json!({"image": "nginx", "paused": true}))
            ],
            [
                "kubectl rollout resume deployment web -n default",
                "kubectl appdeploy resume web -n default"
            ]
        );
    }
}
