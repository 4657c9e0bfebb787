//! Rule by rule. That the rules together come to an end, and to the right one, is for `tests/podset`.

mod rollout;

use super::super::fixtures::{NOW, controller, ending, finished, not_ready, pod, released, successor, web};
use super::super::{Controller, Knowledge, Phase, status, visits};
use super::*;
use crate::pod::PodState;

/// Decides with nothing remembered, and writes it in one line.
fn decide(set: &Wanted, pods: &[SetPod]) -> String {
    decide_with(set, pods, &BTreeMap::new(), usize::MAX)
}

fn decide_with(set: &Wanted, pods: &[SetPod], taken: &BTreeMap<u16, Taken>, pace: usize) -> String {
    let seen = Seen {
        pods,
        taken,
        pace,
        early_ends: 0,
        now: NOW,
    };
    written(&next_step(set, seen))
}

/// Decides after the first step has failed.
fn decide_despite(set: &Wanted, pods: &[SetPod]) -> String {
    let seen = Seen {
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
        Step::Delete(removals) => (
            "delete",
            removals
                .iter()
                .map(|r| format!("{} ({:?})", r.pod.name, r.why))
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
    let heir = creation.replaces.as_ref().map(|uid| format!(" for {uid}"));
    format!("{}{}", creation.slot, heir.unwrap_or_default())
}

#[test]
fn what_is_as_wanted_is_left_alone() {
    assert_eq!(decide(&web(2), &[pod(0), pod(1)]), "settled");
    assert_eq!(decide(&web(0), &[]), "settled");
}

#[test]
fn a_set_that_is_being_deleted_does_nothing() {
    let set = Wanted {
        deleting: true,
        ..web(3)
    };
    let unlabelled = SetPod { label: None, ..pod(1) };
    assert_eq!(decide(&set, &[pod(0), unlabelled, finished(2)]), "settled");
}

#[test]
fn slot_of_a_pod_that_does_not_end_is_given_up() {
    let ends = |slot, ends_by| SetPod {
        ends_by: Some(ends_by),
        ..ending(slot)
    };
    assert_eq!(
        decide(&web(2), &[pod(0), ends(1, NOW - 29)]),
        "settled",
        "its name is waited for"
    );
    assert_eq!(decide(&web(2), &[pod(0), ends(1, NOW - 30)]), "create 2");
    assert_eq!(decide(&web(2), &[pod(0), ends(1, NOW - 30), pod(2)]), "settled");
    let of_a_set_before = SetPod {
        controller: Some(controller("u0")),
        ..ends(1, NOW - 30)
    };
    assert_eq!(decide(&web(2), &[pod(0), of_a_set_before]), "create 2");
    let waits = [pod(0), ends(1, NOW - 29)];
    let seen = Seen {
        pods: &waits,
        taken: &BTreeMap::new(),
        pace: 1,
        early_ends: 0,
        now: NOW,
    };
    assert_eq!(looks_again_at(&web(2), seen), Some(NOW + 1));
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
fn no_more_are_created_at_a_time_than_the_pace_allows() {
    for (pace, expected) in [
        (0, "create 0"),
        (1, "create 0"),
        (2, "create 0, 1"),
        (9, "create 0, 1, 2"),
    ] {
        assert_eq!(decide_with(&web(3), &[], &BTreeMap::new(), pace), expected);
    }
}

/// A predecessor of the same name left pods: they are the garbage collector's, and nothing but their names concerns us.
#[test]
fn only_pods_whose_controller_has_our_uid_are_ours() {
    let of_another = SetPod {
        controller: Some(controller("u0")),
        ..pod(0)
    };
    assert_eq!(decide(&web(0), std::slice::from_ref(&of_another)), "settled");
    assert_eq!(
        decide(&web(1), std::slice::from_ref(&of_another)),
        "settled",
        "its name is waited for"
    );
    assert_eq!(decide(&web(2), &[of_another]), "create 1");
}

#[test]
fn a_pod_that_ends_does_not_count_and_its_name_is_waited_for() {
    assert_eq!(decide(&web(1), &[ending(0)]), "settled");
    assert_eq!(decide(&web(2), &[ending(0), pod(1)]), "settled");
    assert_eq!(decide(&web(2), &[ending(0)]), "create 1");
    assert_eq!(
        decide(&web(1), &[ending(0), pod(1)]),
        "settled",
        "it is gone already, so none is too many"
    );
}

#[test]
fn a_pod_that_has_ended_by_itself_makes_room_when_it_is_old_enough() {
    let of_age = |age| SetPod {
        created: NOW - age,
        ..finished(0)
    };
    let (just_now, old) = (of_age(4), of_age(5));
    assert_eq!(decide(&web(1), &[just_now]), "settled");
    assert_eq!(decide(&web(1), &[old]), "delete web-0 (Finished)");
    for (age, expected) in [(39, "settled"), (40, "delete web-0 (Finished)")] {
        let pods = [of_age(age)];
        let seen = Seen {
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
        assert_eq!(looks_again_at(&web(1), seen).filter(|at| *at > NOW), again);
    }
}

#[test]
fn a_pod_without_the_label_is_let_go_before_anything_else() {
    let unlabelled = SetPod { label: None, ..pod(0) };
    let relabelled = SetPod {
        label: Some("other".into()),
        ..pod(1)
    };
    assert_eq!(
        decide(&web(3), &[unlabelled.clone(), relabelled]),
        "release web-0, web-1"
    );
    let gone = SetPod {
        deleting: true,
        ..unlabelled
    };
    assert_eq!(
        decide(&web(2), &[gone, pod(1)]),
        "settled",
        "what ends need not be let go"
    );
}

#[test]
fn a_pod_with_the_label_and_no_controller_is_taken_in() {
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

/// It was orphaned with its set after it was evicted. It holds a name, and no other controller deletes it.
#[test]
fn an_orphan_that_has_ended_is_adopted_if_a_set_created_it() {
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
fn names_of_others_stay_empty_and_those_of_pods_that_were_let_go_are_passed_over() {
    let foreign = Taken::Foreign { owner: None };
    for (taken, expected) in [
        (foreign, "create 1"),
        (Taken::Ending, "create 1"),
        (Taken::Released, "create 1, 2"),
    ] {
        assert_eq!(decide_with(&web(2), &[], &[(0, taken)].into(), 9), expected);
    }
    assert_eq!(
        decide(&web(2), &[released(0)]),
        "create 1, 2",
        "the same by what a watch tells"
    );
    let believed = [(0, Taken::Released)].into();
    assert_eq!(
        decide_with(&web(1), &[pod(0)], &believed, 9),
        "settled",
        "a watch knows better"
    );
}

#[test]
fn the_surplus_goes_in_the_order_of_a_replica_set() {
    assert_eq!(
        decide(&web(1), &[pod(0), pod(1), pod(2)]),
        "delete web-2 (Surplus), web-1 (Surplus)"
    );
    assert_eq!(decide(&web(1), &[not_ready(pod(0)), pod(1)]), "delete web-0 (Surplus)");
    assert_eq!(decide(&web(0), &[pod(0), ending(1)]), "delete web-0 (Surplus)");
}

#[test]
fn it_looks_again_when_the_next_pod_becomes_available_or_old_enough() {
    let set = Wanted {
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
        let seen = Seen {
            pods: &pods,
            taken: &BTreeMap::new(),
            pace: 1,
            early_ends: 0,
            now: NOW,
        };
        assert_eq!(looks_again_at(&set, seen), expected, "{pods:?}");
    }
}

/// Each change of one of many pods is a reason to look at all of them.
#[test]
fn a_decision_and_a_status_cost_in_proportion_to_the_pods() {
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
        let set = Wanted {
            replace: (0..count)
                .filter(|slot| slot % 2 == 1)
                .map(|slot| format!("p{slot}"))
                .collect(),
            ..web(usize::from(count) - 1)
        };
        let seen = Seen {
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
        let known = Knowledge {
            seen,
            states: &states,
            progressed_at: NOW,
        };
        visits::during(|| {
            let result = status(&object, Some(&set), known, &[], jiff::Timestamp::UNIX_EPOCH);
            (next_step(&set, seen), result)
        })
    };
    let (some, twice, many) = (cost(100), cost(200), cost(1000));
    assert!(
        some > 0 && twice <= 2 * some && many <= 10 * some,
        "{some}, {twice}, {many}"
    );
}
