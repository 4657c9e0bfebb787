//! Updates and replacements.

use std::collections::BTreeMap;

use super::super::super::fixtures::{
    NOW, finished, not_ready, outdated, pod, successor, terminating, web, with_old_image,
};
use super::super::super::{ImageChange, SetPod, ValidPodSet};
use super::{decide, decide_despite, decide_with};

fn replacing(set: ValidPodSet, slots: &[u16]) -> ValidPodSet {
    ValidPodSet {
        replace: slots.iter().map(|slot| format!("p{slot}")).collect(),
        ..set
    }
}

#[test]
fn image_is_changed_in_place_and_other_changes_replace_the_pod() {
    assert_eq!(decide(&web(1), &[with_old_image(0)]), "update web-0 in c1");
    assert_eq!(decide(&web(1), &[outdated(0)]), "delete web-0 (Outdated)");
    let without_our_container = SetPod {
        container: None,
        ..with_old_image(0)
    };
    assert_eq!(decide(&web(1), &[without_our_container]), "delete web-0 (Outdated)");
}

#[test]
fn paused_set_keeps_older_pods_and_creates_missing_ones() {
    let paused = |replicas| ValidPodSet {
        paused: true,
        ..web(replicas)
    };
    let old = [with_old_image(0), outdated(1)];
    assert_eq!(decide(&paused(2), &old), "settled");
    assert_eq!(decide(&paused(3), &old), "create 2");
    assert_eq!(decide(&replacing(paused(2), &[0]), &old), "create 2 for p0");
}

#[test]
fn max_unavailable_limits_updates() {
    let old = [with_old_image(0), with_old_image(1), with_old_image(2)];
    let set = |max_unavailable| ValidPodSet {
        max_unavailable,
        ..web(3)
    };
    assert_eq!(decide(&set(1), &old), "update web-2 in c1");
    assert_eq!(decide(&set(2), &old), "update web-2 in c1, web-1 in c1");
    let one_is_away = [with_old_image(0), with_old_image(1), not_ready(pod(2))];
    assert_eq!(decide(&set(1), &one_is_away), "settled");
    assert_eq!(decide(&set(2), &one_is_away), "update web-1 in c1");
    let one_is_missing = [with_old_image(0), with_old_image(1), terminating(2)];
    assert_eq!(decide(&set(1), &one_is_missing), "settled");
}

#[test]
fn pods_that_do_not_serve_are_updated_first() {
    let pods = [
        with_old_image(0),
        not_ready(with_old_image(1)),
        not_ready(with_old_image(2)),
    ];
    assert_eq!(decide(&web(3), &pods), "update web-2 in c1, web-1 in c1");
    let of_both_kinds = [not_ready(outdated(0)), not_ready(with_old_image(1))];
    assert_eq!(
        decide(&web(2), &of_both_kinds),
        "update web-1 in c1",
        "updates in place come first"
    );
}

#[test]
fn pod_that_still_runs_the_previous_image_does_not_serve() {
    let updating = SetPod {
        change: Some(ImageChange {
            container: "c1".into(),
            image: "v0".into(),
            at: NOW - 10,
        }),
        ..pod(1)
    };
    let arrived = SetPod {
        container: Some("c2".into()),
        ..updating.clone()
    };
    assert_eq!(decide(&web(2), &[with_old_image(0), updating]), "settled");
    assert_eq!(decide(&web(2), &[with_old_image(0), arrived]), "update web-0 in c1");
}

/// Returns a ready pod with an older image that may still run the image before that.
fn in_doubt(slot: u16) -> SetPod {
    SetPod {
        change: Some(ImageChange {
            container: String::new(),
            image: "v-1".into(),
            at: NOW - 10,
        }),
        ..with_old_image(slot)
    }
}

#[test]
fn pods_in_doubt_are_changed_only_as_far_as_max_unavailable_allows() {
    let set = |replicas, max_unavailable| ValidPodSet {
        max_unavailable,
        ..web(replicas)
    };
    let (all, two) = ([in_doubt(0), in_doubt(1)], [in_doubt(0), in_doubt(1), pod(2)]);
    assert_eq!(decide(&set(2, 1), &all), "settled", "both may serve");
    assert_eq!(decide(&set(3, 1), &two), "settled");
    assert_eq!(decide(&set(2, 2), &all), "update web-1 in , web-0 in ");
    assert_eq!(decide(&set(3, 2), &two), "update web-1 in , web-0 in ");
    let one = [in_doubt(0), with_old_image(1)];
    assert_eq!(decide(&set(2, 1), &one), "update web-0 in ", "the other one serves");
    let one_is_idle = [in_doubt(0), not_ready(in_doubt(1))];
    assert_eq!(decide(&set(2, 1), &one_is_idle), "update web-1 in ");
    let another_shape = |slot| SetPod {
        shape: Some("s0".into()),
        ..in_doubt(slot)
    };
    let all = [another_shape(0), another_shape(1)];
    assert_eq!(decide(&set(2, 1), &all), "settled", "neither is deleted");
}

#[test]
fn pod_whose_container_must_restart_is_not_in_doubt() {
    let restarting = |slot| SetPod {
        change: Some(ImageChange {
            container: "c1".into(),
            image: "v-1".into(),
            at: NOW,
        }),
        ..with_old_image(slot)
    };
    let pods = [restarting(0), restarting(1)];
    assert_eq!(decide(&web(2), &pods), "update web-1 in c1, web-0 in c1");
}

#[test]
fn chosen_pod_is_deleted_when_its_successor_is_available() {
    let set = replacing(web(2), &[0]);
    let set = ValidPodSet { min_ready: 10, ..set };
    let starting = not_ready(successor(2, 0));
    let just_ready = SetPod {
        ready_since: Some(NOW - 9),
        ..starting.clone()
    };
    let available = successor(2, 0);
    for (then, pods, expected) in [
        ("at first", vec![pod(0), pod(1)], "create 2 for p0"),
        ("it starts", vec![pod(0), pod(1), starting], "settled"),
        ("it is ready", vec![pod(0), pod(1), just_ready], "settled"),
        (
            "for long enough",
            vec![pod(0), pod(1), available.clone()],
            "delete web-0 (Replaced)",
        ),
        ("it ends", vec![terminating(0), pod(1), available.clone()], "settled"),
        ("at last", vec![pod(1), available], "settled"),
    ] {
        assert_eq!(decide(&set, &pods), expected, "{then}");
    }
}

#[test]
fn pods_are_replaced_one_at_a_time() {
    let set = replacing(web(2), &[0, 1]);
    assert_eq!(decide(&set, &[pod(0), pod(1)]), "create 2 for p1");
    assert_eq!(decide(&set, &[pod(0), pod(1), not_ready(successor(2, 1))]), "settled");
    assert_eq!(
        decide(&set, &[pod(0), pod(1), successor(2, 1)]),
        "delete web-1 (Replaced)"
    );
    assert_eq!(decide(&set, &[pod(0), successor(2, 1)]), "create 1 for p0");
}

#[test]
fn missing_pods_are_created_before_a_successor() {
    let set = replacing(web(3), &[0]);
    assert_eq!(decide_with(&set, &[pod(0)], &BTreeMap::new(), 1), "create 1");
    assert_eq!(decide(&set, &[pod(0)]), "create 1, 2, 3 for p0");
}

#[test]
fn entry_of_a_pod_that_was_deleted_neither_blocks_its_name_nor_replaces_a_later_pod() {
    assert_eq!(decide(&replacing(web(2), &[0]), &[]), "create 0, 1");
    let later = SetPod {
        uid: "another".into(),
        ..pod(0)
    };
    assert_eq!(decide(&replacing(web(1), &[0]), &[later]), "settled");
    assert_eq!(decide(&replacing(web(1), &[0, 1]), &[pod(0)]), "create 1 for p0");
}

/// A pod that is to be replaced does not count as a successor. It would be deleted immediately.
#[test]
fn chosen_pod_is_not_a_successor() {
    let set = replacing(web(1), &[0, 1]);
    assert_eq!(decide(&set, &[pod(0), successor(1, 0)]), "delete web-1 (Surplus)");
}

#[test]
fn chosen_pod_is_deleted_first_if_there_is_a_surplus() {
    let set = replacing(web(1), &[0]);
    assert_eq!(decide(&set, &[pod(0), pod(1)]), "delete web-0 (Surplus)");
    assert_eq!(decide(&set, &[pod(0), not_ready(pod(1))]), "delete web-1 (Surplus)");
    let with_another = [pod(0), successor(1, 0), pod(2)];
    assert_eq!(decide(&set, &with_another), "delete web-0 (Surplus)");
    assert_eq!(decide(&replacing(web(0), &[0]), &[pod(0)]), "delete web-0 (Surplus)");
}

/// Found by the property tests: the pod that had just become ready was kept, and none was available.
#[test]
fn available_pod_is_not_deleted_in_favor_of_one_that_has_just_become_ready() {
    let set = ValidPodSet {
        min_ready: 10,
        ..replacing(web(1), &[0])
    };
    let just_ready = SetPod {
        ready_since: Some(NOW),
        ..pod(1)
    };
    assert_eq!(decide(&set, &[pod(0), just_ready]), "delete web-1 (Surplus)");
}

#[test]
fn pod_in_doubt_is_not_deleted_in_favor_of_one_that_is_not_available() {
    let just_ready = SetPod {
        ready_since: Some(NOW),
        started: Some(NOW),
        ..pod(1)
    };
    let chosen = SetPod {
        change: in_doubt(0).change,
        ..pod(0)
    };
    let set = replacing(web(1), &[0]);
    assert_eq!(decide(&set, &[chosen.clone(), just_ready]), "settled");
    assert_eq!(decide(&set, &[chosen.clone(), pod(1)]), "delete web-0 (Surplus)");
    let none = replacing(web(0), &[0]);
    assert_eq!(decide(&none, &[chosen]), "delete web-0 (Surplus)");
}

/// A user has created both successors, which is one more than the set would create.
#[test]
fn chosen_pods_are_kept_while_two_successors_start() {
    let set = replacing(web(2), &[0, 1]);
    let starting = |slot, of| not_ready(successor(slot, of));
    let pods = [pod(0), pod(1), starting(2, 0), starting(3, 1)];
    assert_eq!(decide(&set, &pods), "settled");
    let pods = [pod(0), pod(1), successor(2, 0), starting(3, 1)];
    assert_eq!(decide(&set, &pods), "delete web-1 (Surplus)");
}

#[test]
fn pods_are_updated_while_others_cannot_be_created() {
    let idle = [not_ready(with_old_image(0)), not_ready(outdated(1)), pod(2)];
    assert_eq!(decide(&web(5), &idle), "create 3, 4");
    assert_eq!(decide_despite(&web(5), &idle), "update web-0 in c1");
    let of_another_shape = [not_ready(outdated(1)), pod(2)];
    assert_eq!(decide_despite(&web(5), &of_another_shape), "delete web-1 (Outdated)");
    let serving = [with_old_image(0), outdated(1), outdated(2), pod(3)];
    let set = ValidPodSet {
        max_unavailable: 4,
        ..web(5)
    };
    assert_eq!(
        decide_despite(&set, &serving),
        "update web-0 in c1",
        "a serving pod is not deleted, because no other could replace it"
    );
    assert_eq!(
        decide_despite(&web(5), &serving),
        "settled",
        "the missing pod is one that may be unavailable"
    );
}

#[test]
fn failed_step_does_not_block_later_ones() {
    let orphan = SetPod {
        controller: None,
        ..pod(1)
    };
    let pods = [orphan, finished(0), pod(2)];
    let set = web(3);
    assert_eq!(decide(&set, &pods), "adopt web-1");
    assert_eq!(decide_despite(&set, &pods), "delete web-0 (Finished)");
}
