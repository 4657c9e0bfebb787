//! Each rule on its own. `tests/podset` checks that all rules together reach the desired state.

mod rollout;

use super::super::fixtures::{NOW, controller, finished, not_ready, pod, released, successor, terminating, web};
use super::super::{Controller, Phase, StatusInput, status, visits};
use super::*;
use crate::pod::PodState;

/// Returns the next step in one line.
fn decide(set: &ValidPodSet, pods: &[SetPod]) -> String {
    decide_with(set, pods, &BTreeMap::new(), usize::MAX)
}

fn decide_with(set: &ValidPodSet, pods: &[SetPod], taken: &BTreeMap<u16, NameHolder>, pace: usize) -> String {
    let seen = StepInput {
        pods,
        taken,
        pace,
        early_ends: 0,
        now: NOW,
    };
    written(&next_step(set, seen))
}

/// Returns the next step after the first one has failed, in one line.
fn decide_despite(set: &ValidPodSet, pods: &[SetPod]) -> String {
    let seen = StepInput {
        pods,
        taken: &BTreeMap::new(),
        pace: usize::MAX,
        early_ends: 0,
        now: NOW,
    };
    written(&next_step_despite(set, seen, &next_step(set, seen)))
}

fn written(step: &Step) -> String {
    let names = |pods: &[PodRef]| pods.iter().map(|pod| pod.name.clone()).collect();
    let (verb, what): (_, Vec<String>) = match step {
        Step::Release(pods) => ("release", names(pods)),
        Step::Adopt(pods) => ("adopt", names(pods)),
        Step::Create(creations) => ("create", creations.iter().map(creation).collect()),
        Step::Delete(deletions) => (
            "delete",
            deletions
                .iter()
                .map(|r| format!("{} ({:?})", r.pod.name, r.reason))
                .collect(),
        ),
        Step::Update(updates) => (
            "update",
            updates
                .iter()
                .map(|u| format!("{} in {}", u.pod.name, u.change.container))
                .collect(),
        ),
        Step::Settled => return "settled".into(),
    };
    format!("{verb} {}", what.join(", "))
}

fn creation(creation: &Creation) -> String {
    let successor = creation.replaces.as_ref().map(|uid| format!(" for {uid}"));
    format!("{}{}", creation.slot, successor.unwrap_or_default())
}

#[test]
fn pods_that_are_as_desired_are_not_changed() {
    assert_eq!(decide(&web(2), &[pod(0), pod(1)]), "settled");
    assert_eq!(decide(&web(0), &[]), "settled");
}

#[test]
fn pods_of_a_set_that_is_being_deleted_are_not_changed() {
    let set = ValidPodSet {
        deleting: true,
        ..web(3)
    };
    let unlabelled = SetPod { label: None, ..pod(1) };
    assert_eq!(decide(&set, &[pod(0), unlabelled, finished(2)]), "settled");
}

#[test]
fn slot_of_a_pod_whose_deletion_is_overdue_is_not_used() {
    let ends = |slot, ends_by| SetPod {
        ends_by: Some(ends_by),
        ..terminating(slot)
    };
    assert_eq!(
        decide(&web(2), &[pod(0), ends(1, NOW - 29)]),
        "settled",
        "its name is not free yet"
    );
    assert_eq!(decide(&web(2), &[pod(0), ends(1, NOW - 30)]), "create 2");
    assert_eq!(decide(&web(2), &[pod(0), ends(1, NOW - 30), pod(2)]), "settled");
    let of_a_deleted_set = SetPod {
        controller: Some(controller("u0")),
        ..ends(1, NOW - 30)
    };
    assert_eq!(decide(&web(2), &[pod(0), of_a_deleted_set]), "create 2");
    let waits = [pod(0), ends(1, NOW - 29)];
    let seen = StepInput {
        pods: &waits,
        taken: &BTreeMap::new(),
        pace: 1,
        early_ends: 0,
        now: NOW,
    };
    assert_eq!(next_change_at(&web(2), seen), Some(NOW + 1));
}

#[test]
fn missing_pods_get_the_lowest_free_slots() {
    assert_eq!(decide(&web(3), &[]), "create 0, 1, 2");
    assert_eq!(decide(&web(3), &[pod(1)]), "create 0, 2");
    let adopted = SetPod {
        name: "by-hand".into(),
        ..pod(9)
    };
    assert_eq!(decide(&web(2), &[adopted]), "create 0");
}

#[test]
fn pace_limits_concurrent_creations() {
    for (pace, expected) in [
        (0, "create 0"),
        (1, "create 0"),
        (2, "create 0, 1"),
        (9, "create 0, 1, 2"),
    ] {
        assert_eq!(decide_with(&web(3), &[], &BTreeMap::new(), pace), expected);
    }
}

/// Pods of a deleted set of the same name are left to the garbage collector. Only their names matter.
#[test]
fn only_pods_whose_controller_has_the_uid_of_the_set_belong_to_it() {
    let of_another = SetPod {
        controller: Some(controller("u0")),
        ..pod(0)
    };
    assert_eq!(decide(&web(0), std::slice::from_ref(&of_another)), "settled");
    assert_eq!(
        decide(&web(1), std::slice::from_ref(&of_another)),
        "settled",
        "its name is not free yet"
    );
    assert_eq!(decide(&web(2), &[of_another]), "create 1");
}

#[test]
fn terminating_pod_does_not_count_and_its_name_is_not_free() {
    assert_eq!(decide(&web(1), &[terminating(0)]), "settled");
    assert_eq!(decide(&web(2), &[terminating(0), pod(1)]), "settled");
    assert_eq!(decide(&web(2), &[terminating(0)]), "create 1");
    assert_eq!(
        decide(&web(1), &[terminating(0), pod(1)]),
        "settled",
        "it does not count any more, so there is no surplus"
    );
}

#[test]
fn finished_pod_is_deleted_when_it_is_old_enough() {
    let of_age = |age| SetPod {
        created: NOW - age,
        ..finished(0)
    };
    let (just_now, old) = (of_age(4), of_age(5));
    assert_eq!(decide(&web(1), &[just_now]), "settled");
    assert_eq!(decide(&web(1), &[old]), "delete web-0 (Finished)");
    for (age, expected) in [(39, "settled"), (40, "delete web-0 (Finished)")] {
        let pods = [of_age(age)];
        let seen = StepInput {
            pods: &pods,
            taken: &BTreeMap::new(),
            pace: 1,
            early_ends: 3,
            now: NOW,
        };
        assert_eq!(
            written(&next_step(&web(1), seen)),
            expected,
            "the fourth that ends early"
        );
        let again = (age < 40).then_some(NOW + 1);
        assert_eq!(next_change_at(&web(1), seen).filter(|at| *at > NOW), again);
    }
}

#[test]
fn pod_without_the_label_is_released_first() {
    let unlabelled = SetPod { label: None, ..pod(0) };
    let relabelled = SetPod {
        label: Some("other".into()),
        ..pod(1)
    };
    assert_eq!(
        decide(&web(3), &[unlabelled.clone(), relabelled]),
        "release web-0, web-1"
    );
    let deleted = SetPod {
        deleting: true,
        ..unlabelled
    };
    assert_eq!(
        decide(&web(2), &[deleted, pod(1)]),
        "settled",
        "a terminating pod is not released"
    );
}

#[test]
fn pod_with_the_label_and_no_controller_is_adopted() {
    let orphan = SetPod {
        controller: None,
        name: "by-hand".into(),
        ..pod(0)
    };
    let others = SetPod {
        controller: Some(Controller {
            name: "ReplicaSet web".into(),
            uid: "r1".into(),
        }),
        ..orphan.clone()
    };
    let ended = SetPod {
        phase: Phase::Finished,
        template: None,
        ..orphan.clone()
    };
    let ends = SetPod {
        deleting: true,
        ..orphan.clone()
    };
    assert_eq!(decide(&web(0), &[orphan]), "adopt by-hand");
    for (what, not_adopted) in [("another's", others), ("ended", ended), ("ending", ends)] {
        assert_eq!(decide(&web(0), &[not_adopted]), "settled", "{what}");
    }
}

/// An evicted pod that was orphaned with its set has the name of a slot, and no other controller deletes it.
#[test]
fn finished_orphan_is_adopted_if_a_set_created_it() {
    let orphan = SetPod {
        controller: None,
        ..finished(0)
    };
    let deleting = SetPod {
        deleting: true,
        ..orphan.clone()
    };
    assert_eq!(decide(&web(1), &[orphan]), "adopt web-0");
    assert_eq!(decide(&web(1), &[finished(0)]), "delete web-0 (Finished)", "then");
    assert_eq!(decide(&web(1), &[deleting]), "settled");
}

#[test]
fn slots_of_third_party_pods_stay_empty_and_those_of_released_pods_are_skipped() {
    let foreign = NameHolder::ThirdParty { owner: None };
    for (taken, expected) in [
        (foreign, "create 1"),
        (NameHolder::Terminating, "create 1"),
        (NameHolder::Released, "create 1, 2"),
    ] {
        assert_eq!(decide_with(&web(2), &[], &[(0, taken)].into(), 9), expected);
    }
    assert_eq!(
        decide(&web(2), &[released(0)]),
        "create 1, 2",
        "also if the watch shows it"
    );
    let recorded = [(0, NameHolder::Released)].into();
    assert_eq!(
        decide_with(&web(1), &[pod(0)], &recorded, 9),
        "settled",
        "the watch has newer data"
    );
}

#[test]
fn surplus_is_deleted_in_the_order_of_a_replica_set() {
    assert_eq!(
        decide(&web(1), &[pod(0), pod(1), pod(2)]),
        "delete web-2 (Surplus), web-1 (Surplus)"
    );
    assert_eq!(decide(&web(1), &[not_ready(pod(0)), pod(1)]), "delete web-0 (Surplus)");
    assert_eq!(decide(&web(0), &[pod(0), terminating(1)]), "delete web-0 (Surplus)");
}

#[test]
fn next_change_is_when_a_pod_becomes_available_or_old_enough() {
    let set = ValidPodSet {
        min_ready: 10,
        ..web(3)
    };
    let ready_since = |slot, since| SetPod {
        ready_since: Some(since),
        ..pod(slot)
    };
    let ended = SetPod {
        created: NOW - 2,
        ..finished(2)
    };
    let away = SetPod {
        deleting: true,
        ..ready_since(3, NOW - 9)
    };
    for (pods, expected) in [
        (vec![pod(0)], None),
        (vec![pod(0), not_ready(pod(1))], None),
        (vec![pod(0), ready_since(1, NOW - 4)], Some(NOW + 6)),
        (vec![ready_since(0, NOW - 1), ready_since(1, NOW - 4)], Some(NOW + 6)),
        (vec![ready_since(0, NOW - 10)], None),
        (vec![ready_since(1, NOW - 4), ended], Some(NOW + 3)),
        (vec![away], None),
    ] {
        let seen = StepInput {
            pods: &pods,
            taken: &BTreeMap::new(),
            pace: 1,
            early_ends: 0,
            now: NOW,
        };
        assert_eq!(next_change_at(&set, seen), expected, "{pods:?}");
    }
}

/// Each change of a pod causes a decision about all of them.
#[test]
fn cost_of_a_decision_and_a_status_is_proportional_to_the_pods() {
    let cost = |count: u16| {
        let pods: Vec<SetPod> = (0..count)
            .map(|slot| match slot % 4 {
                0 => not_ready(successor(slot, slot + 1)),
                _ => pod(slot),
            })
            .collect();
        let states: Vec<PodState> = pods
            .iter()
            .map(|pod| PodState {
                name: pod.name.clone(),
                ..PodState::default()
            })
            .collect();
        let set = ValidPodSet {
            replace: (0..count)
                .filter(|slot| slot % 2 == 1)
                .map(|slot| format!("p{slot}"))
                .collect(),
            ..web(usize::from(count) - 1)
        };
        let seen = StepInput {
            pods: &pods,
            taken: &BTreeMap::new(),
            pace: 1,
            early_ends: 0,
            now: NOW,
        };
        let object = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web"}, "spec": {},
        }));
        let object: crd::PodSet = object.unwrap();
        let input = StatusInput {
            step: seen,
            states: &states,
            progressed_at: NOW,
            dropped: None,
        };
        visits::during(|| {
            let result = status(&object, Some(&set), input, &[], jiff::Timestamp::UNIX_EPOCH);
            (next_step(&set, seen), result)
        })
    };
    let (some, twice, many) = (cost(100), cost(200), cost(1000));
    assert!(
        some > 0 && twice <= 2 * some && many <= 10 * some,
        "{some}, {twice}, {many}"
    );
}
