//! Conditions, causes and numbers.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::fixtures::{
    NOW, finished, not_ready, outdated, pod, released, successor, terminating, web, with_old_image,
};
use super::super::{Controller, ImageChange, NameHolder, SetPod};
use super::*;

fn set() -> PodSet {
    serde_json::from_value(json!({
        "apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 3},
        "spec": {"template": {"image": "nginx:1"}},
    }))
    .unwrap()
}

struct Case {
    valid: ValidPodSet,
    pods: Vec<SetPod>,
    states: Vec<PodState>,
    taken: BTreeMap<u16, NameHolder>,
}

impl Case {
    fn of(valid: ValidPodSet, pods: impl Into<Vec<SetPod>>) -> Self {
        Self {
            valid,
            pods: pods.into(),
            states: Vec::new(),
            taken: BTreeMap::new(),
        }
    }

    fn status(&self, set: &PodSet, errors: &[PodError]) -> PodSetStatus {
        let seen = StepInput {
            pods: &self.pods,
            taken: &self.taken,
            pace: 1,
            early_ends: 0,
            now: NOW,
        };
        let input = StatusInput {
            step: seen,
            states: &self.states,
            progressed_at: NOW,
            dropped: None,
        };
        status(
            set,
            Some(&self.valid),
            input,
            errors,
            Timestamp::from_second(NOW).unwrap(),
        )
    }

    fn report(&self) -> String {
        report_of(&self.status(&set(), &[]))
    }
}

/// Returns the reason and the message of `Ready`, and the next command.
fn report_of(status: &PodSetStatus) -> String {
    let ready = status.conditions.iter().find(|c| c.type_ == "Ready").unwrap();
    let next = status.cause.as_ref().and_then(|cause| cause.next.as_deref());
    format!(
        "{}: {}{}",
        ready.reason,
        ready.message,
        next.map(|next| format!("\n  next: {next}")).unwrap_or_default()
    )
}

#[test]
fn paused_update_is_reported_with_its_progress() {
    let paused = ValidPodSet { paused: true, ..web(2) };
    let reports = [
        Case::of(paused.clone(), [outdated(0), pod(1)]).report(),
        Case::of(paused, [pod(0), pod(1)]).report(),
    ];
    insta::assert_snapshot!(reports.join("\n"), @r"
    Paused: the update is paused: 1 of 2 pods run the new spec
      next: kubectl appdeploy podset resume web -n shop
    Available: 2 pods are ready
    ");
}

#[test]
fn overdue_deletion_is_a_cause_even_if_another_pod_was_created() {
    let overdue = |node: Option<&str>, is_held| SetPod {
        ends_by: Some(NOW - 30),
        node: node.map(Into::into),
        is_held,
        ..terminating(1)
    };
    let cases = [
        Case::of(web(2), [pod(0), overdue(Some("n1"), false)]),
        Case::of(web(2), [pod(0), overdue(Some("n1"), true), not_ready(pod(2))]),
        Case::of(web(2), [pod(0), overdue(Some("n1"), false), pod(2)]),
        Case::of(web(0), [overdue(None, false)]),
    ];
    let reports: Vec<String> = cases.iter().map(Case::report).collect();
    insta::assert_snapshot!(reports.join("\n"), @r"
    PodNotTerminating: pod web-1 was deleted and still exists: its node n1 may be down; its slot is not used while it exists
      next: kubectl describe node n1
    PodNotTerminating: pod web-1 was deleted and still exists: a finalizer holds it; its slot is not used while it exists
      next: kubectl get pod web-1 -n shop -o yaml
    Available: 2 pods are ready; pod web-1 was deleted and still exists: its node n1 may be down; its slot is not used while it exists
      next: kubectl describe node n1
    ScaledToZero: scaled to zero
      next: kubectl describe pod web-1 -n shop
    ");
    for case in &cases {
        let status = case.status(&set(), &[]);
        assert_eq!(status.cause.unwrap().reason, "PodNotTerminating");
    }
}

fn replacing(replicas: usize, uid: &str) -> ValidPodSet {
    ValidPodSet {
        replace: [uid.to_owned()].into(),
        ..web(replicas)
    }
}

#[test]
fn progress_is_reported() {
    let patient = ValidPodSet {
        min_ready: 10,
        ..web(2)
    };
    let just_ready = SetPod {
        ready_since: Some(NOW),
        ..pod(1)
    };
    let updating = SetPod {
        change: Some(ImageChange {
            container: "c1".into(),
            image: "v0".into(),
            at: NOW,
        }),
        ..pod(1)
    };
    let cases = [
        Case::of(web(2), []),
        Case::of(web(2), [pod(0), not_ready(pod(1))]),
        Case::of(web(2), [pod(0), terminating(1)]),
        Case::of(patient, [pod(0), just_ready]),
        Case::of(web(2), [pod(0), pod(1)]),
        Case::of(web(1), [pod(0)]),
        Case::of(web(0), []),
        Case::of(web(2), [pod(0), pod(1), pod(2)]),
        Case::of(web(2), [with_old_image(0), updating]),
        Case::of(web(2), [outdated(0), pod(1)]),
        Case::of(replacing(1, "p0"), [pod(0)]),
        Case::of(replacing(1, "p0"), [pod(0), not_ready(successor(1, 0))]),
        Case::of(web(1), [released(0), pod(1)]),
    ];
    let reports: Vec<String> = cases.iter().map(Case::report).collect();
    insta::assert_snapshot!(reports.join("\n"));
}

#[test]
fn name_conflict_is_reported_with_a_command() {
    let taken = |owner: Option<&str>| Case {
        taken: [(
            1,
            NameHolder::ThirdParty {
                owner: owner.map(String::from),
            },
        )]
        .into(),
        ..Case::of(web(2), [pod(0)])
    };
    let of_a_job = SetPod {
        controller: Some(Controller {
            name: "Job batch".into(),
            uid: "j1".into(),
        }),
        ..pod(1)
    };
    let cases = [
        taken(None),
        taken(Some("Job batch")),
        Case::of(web(2), [pod(0), of_a_job]),
    ];
    let reports: Vec<String> = cases.iter().map(Case::report).collect();
    insta::assert_snapshot!(reports.join("\n"));
    let seen = StepInput {
        pods: &cases[0].pods,
        taken: &cases[0].taken,
        pace: 1,
        early_ends: 0,
        now: NOW,
    };
    assert_eq!(conflicts(&web(2), seen).len(), 1);
    assert_eq!(conflicts(&web(1), seen), [], "the name is not needed");
}

#[test]
fn numbers_count_existing_pods() {
    let pods = [
        pod(10),
        pod(2),
        not_ready(pod(3)),
        with_old_image(0),
        finished(4),
        terminating(5),
        released(6),
    ];
    let status = Case::of(web(5), pods).status(&set(), &[]);
    assert_eq!(
        [
            status.replicas,
            status.ready_replicas,
            status.available_replicas,
            status.updated_replicas,
            status.terminating_replicas
        ],
        [4, 3, 3, 3, 1].map(Some)
    );
    assert_eq!(status.pod_names, ["web-0", "web-2", "web-3", "web-10"]);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.selector.as_deref(), Some("appdeploy.dev/podset=web"));
}

#[test]
fn list_of_names_is_limited_and_numbers_count_all() {
    let status = Case::of(web(120), (0..120).map(pod).collect::<Vec<_>>()).status(&set(), &[]);
    assert_eq!((status.replicas, status.pod_names.len()), (Some(120), 100));
    assert_eq!(status.pod_names[99], "web-99");
}

#[test]
fn failed_creation_or_deletion_is_a_condition() {
    let failed = |verb| PodError {
        verb,
        failure: Failure::NamespaceTerminating,
    };
    for (verb, expected) in [
        (Verb::Create, Some("FailedCreate")),
        (Verb::Delete, Some("FailedDelete")),
        (Verb::Other, None),
    ] {
        let status = Case::of(web(1), []).status(&set(), &[failed(verb)]);
        let found = status.conditions.iter().find(|c| c.type_ == condition::REPLICA_FAILURE);
        assert_eq!(found.map(|c| &*c.reason), expected);
    }
}

#[test]
fn status_does_not_change_while_nothing_else_does() {
    let case = Case::of(web(2), [pod(0), not_ready(pod(1))]);
    let mut later = set();
    later.status = Some(case.status(&set(), &[]));
    let input = StatusInput {
        step: StepInput {
            pods: &case.pods,
            taken: &case.taken,
            pace: 9,
            early_ends: 0,
            now: NOW + 60,
        },
        states: &[],
        progressed_at: NOW,
        dropped: None,
    };
    let again = status(
        &later,
        Some(&case.valid),
        input,
        &[],
        Timestamp::from_second(NOW + 60).unwrap(),
    );
    assert_eq!(Some(again), later.status);
    assert_eq!(
        changes_in(&case.valid, input),
        Some(Duration::from_secs(540)),
        "the progress deadline"
    );
}

#[test]
fn fields_that_are_not_stored_are_reported_until_it_is_known_that_they_are() {
    let case = Case::of(web(1), [pod(0)]);
    let none = Case::of(web(0), []);
    let mut set = set();
    let mut report = |case: &Case, dropped: Option<&[String]>| {
        let input = StatusInput {
            step: StepInput {
                pods: &case.pods,
                taken: &case.taken,
                pace: 1,
                early_ends: 0,
                now: NOW,
            },
            states: &case.states,
            progressed_at: NOW,
            dropped,
        };
        let time = Timestamp::from_second(NOW).unwrap();
        let next = status(&set, Some(&case.valid), input, &[], time);
        let conditions = next.conditions.iter();
        let found = conditions
            .filter(|c| c.type_ == "FieldsDropped")
            .map(|c| c.message.clone());
        let found = found.collect::<Vec<_>>();
        set.status = Some(next);
        found
    };
    let said = "the API server has not stored spec.hostUsers of the pods: it is too old, a feature gate is off, or a policy \
                removes the field; update the cluster, or remove the field from the spec";
    let dropped = ["spec.hostUsers".to_owned()];
    assert_eq!(report(&case, None), [""; 0]);
    assert_eq!(report(&case, Some(&dropped)), [said]);
    assert_eq!(report(&case, None), [said], "after a restart of the operator");
    assert_eq!(report(&case, Some(&[])), [""; 0], "a pod was created with all fields");
    assert_eq!(report(&case, Some(&dropped)), [said]);
    assert_eq!(report(&none, None), [""; 0], "no pod has the fields");
}

/// As for a Deployment. After a restart, the operator reads it from the stored status.
#[test]
fn pod_set_without_progress_for_ten_minutes_is_stalled() {
    let seconds = |seconds| NOW + seconds;
    let at = |case: &Case, set: &PodSet, progressed_at, now| {
        let seen = StepInput {
            pods: &case.pods,
            taken: &case.taken,
            pace: 1,
            early_ends: 0,
            now,
        };
        let input = StatusInput {
            step: seen,
            states: &case.states,
            progressed_at,
            dropped: None,
        };
        let time = Timestamp::from_second(now).unwrap();
        (
            status(set, Some(&case.valid), input, &[], time),
            changes_in(&case.valid, input),
        )
    };
    let case = Case::of(web(2), [pod(0), not_ready(pod(1))]);
    let (before, wait) = at(&case, &set(), NOW, seconds(599));
    assert_eq!(report_of(&before), "Progressing: 1 of 2 pods are ready");
    assert_eq!(wait, Some(Duration::from_secs(1)));
    let (overdue, wait) = at(&case, &set(), NOW, seconds(600));
    assert_eq!(
        report_of(&overdue),
        "ProgressDeadlineExceeded: 1 of 2 pods are ready, and there was no progress for ten minutes\n  \
         next: kubectl describe pods -n shop -l appdeploy.dev/podset=web"
    );
    assert_eq!(wait, None);
    assert!(
        overdue
            .conditions
            .iter()
            .any(|c| c.type_ == "Stalled" && c.status == "True")
    );

    let mut restarted = set();
    restarted.status = Some(overdue);
    let (again, _) = at(&case, &restarted, seconds(700), seconds(700));
    assert_eq!(Some(again), restarted.status, "it has made no progress since");
    let another_is_ready = Case::of(web(2), [pod(0), not_ready(pod(1)), pod(2)]);
    let (moved, _) = at(&another_is_ready, &restarted, seconds(700), seconds(700));
    assert!(report_of(&moved).starts_with("Progressing"), "{}", report_of(&moved));
    restarted.metadata.generation = Some(4);
    let (changed, _) = at(&case, &restarted, seconds(700), seconds(700));
    assert!(
        report_of(&changed).starts_with("Progressing"),
        "{}",
        report_of(&changed)
    );

    for settled in [Case::of(web(1), [pod(0)]), Case::of(web(0), [])] {
        let (settled, wait) = at(&settled, &set(), NOW, seconds(9999));
        assert!(settled.cause.is_none(), "{}", report_of(&settled));
        assert_eq!(wait, None, "a set that is as desired is not reconciled again");
    }
}

#[test]
fn deletion_is_the_only_report_of_a_pod_set_that_is_being_deleted() {
    let mut deleted = set();
    deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let case = Case::of(web(2), [pod(0)]);
    let report = report_of(&case.status(&deleted, &[]));
    assert_eq!(report, "Deleting: it is being deleted, with its pods");
}
