//! Which pods to delete first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{SetPod, ValidPodSet};

/// Sorts pods by the order of their deletion, as ReplicaSet does
/// (`ActivePodsWithRanks` in `pkg/controller/controller_utils.go` of Kubernetes): without a node, then pending,
/// then of unknown phase, then not ready, then cheaper, then with more of its kind on its node, then ready for a
/// shorter time, then restarted more often (its containers, then its sidecars), then younger.
///
/// While all pods are available, those of an older template come before the others, so that scaling down during a rollout
/// keeps updated pods. The deletion cost has priority over that.
///
/// A pod that must restart for another image counts as not ready. A ready pod that may be about to restart comes between
/// pods that are not ready and those that are.
///
/// As for a ReplicaSet, times count by their order of magnitude, so that pods of about the same age are equal. A ReplicaSet
/// then compares UIDs, which are random, and compares restarts only between pods that became ready in the same second. That
/// comparison is not transitive (see the tests). So here restarts are compared between all pods of about the same age, and
/// then the highest slot comes first.
pub fn sort(pods: &mut [&SetPod], set: &ValidPodSet, now: i64) {
    let mut neighbours: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for pod in pods.iter() {
        *neighbours.entry(pod.node.as_deref()).or_default() += 1;
    }
    let all_available = pods.iter().all(|pod| pod.is_available(set, now));
    pods.sort_by_cached_key(|pod| {
        (
            pod.node.is_some(),
            pod.phase,
            (pod.may_serve(now), pod.serves_since(now).is_some()),
            pod.deletion_cost,
            all_available && pod.is_updated(set),
            Reverse(neighbours.get(&pod.node.as_deref()).copied()),
            pod.serves_since(now).map(|since| magnitude(now - since)),
            Reverse((pod.restarts, pod.sidecar_restarts)),
            magnitude(now - pod.created),
            Reverse(set.slot_of(&pod.name).unwrap_or(u16::MAX)),
            pod.name.clone(),
        )
    });
}

/// Returns the order of magnitude of an age in seconds, to the base of two. Ages below one are the same.
fn magnitude(age: i64) -> u32 {
    age.max(0).checked_ilog2().map_or(0, |magnitude| magnitude + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{ImageChange, Phase};
    use super::*;

    /// In each row the pod that is deleted first comes first.
    #[test]
    fn pods_are_deleted_in_the_order_of_a_replica_set() {
        let set = ValidPodSet {
            name: "web".into(),
            ..ValidPodSet::default()
        };
        let now = 10_000;
        let best = SetPod {
            name: "web-0".into(),
            node: Some("a".into()),
            phase: Phase::Running,
            ready_since: Some(0),
            ..SetPod::default()
        };
        let worse: [(&str, SetPod); 10] = [
            (
                "no node",
                SetPod {
                    node: None,
                    ..best.clone()
                },
            ),
            (
                "pending",
                SetPod {
                    phase: Phase::Pending,
                    ..best.clone()
                },
            ),
            (
                "unknown",
                SetPod {
                    phase: Phase::Unknown,
                    ..best.clone()
                },
            ),
            (
                "not ready",
                SetPod {
                    ready_since: None,
                    ..best.clone()
                },
            ),
            (
                "cheaper",
                SetPod {
                    deletion_cost: -1,
                    ..best.clone()
                },
            ),
            (
                "ready later",
                SetPod {
                    ready_since: Some(9_000),
                    ..best.clone()
                },
            ),
            (
                "restarted",
                SetPod {
                    restarts: 1,
                    ..best.clone()
                },
            ),
            (
                "sidecar restarted",
                SetPod {
                    sidecar_restarts: 1,
                    ..best.clone()
                },
            ),
            (
                "younger",
                SetPod {
                    created: 9_000,
                    ..best.clone()
                },
            ),
            (
                "higher slot",
                SetPod {
                    name: "web-1".into(),
                    ..best.clone()
                },
            ),
        ];
        // Each is deleted before the best one, and before all that follow.
        for (at, (what, pod)) in worse.iter().enumerate() {
            for (other, later) in worse[at + 1..].iter().chain([&("the best", best.clone())]) {
                let mut pods = [later, pod];
                sort(&mut pods, &set, now);
                assert_eq!(pods[0], pod, "{what} goes before {other}");
            }
        }
    }

    /// Its container is ready, and about to be stopped.
    #[test]
    fn pod_whose_image_is_being_changed_counts_as_not_ready() {
        let ready = |name: &str, changed_from: &str| SetPod {
            name: name.into(),
            ready_since: Some(0),
            container: Some("c1".into()),
            change: Some(ImageChange {
                container: changed_from.into(),
                image: "v1".into(),
                at: 0,
            }),
            ..SetPod::default()
        };
        let (serving, restarting) = (ready("web-1", "c0"), ready("web-0", "c1"));
        let mut pods = [&serving, &restarting];
        sort(&mut pods, &ValidPodSet::default(), 0);
        assert_eq!(pods[0], &restarting);
    }

    #[test]
    fn pod_in_doubt_ranks_between_unready_and_ready_pods() {
        let in_doubt = SetPod {
            name: "web-1".into(),
            ready_since: Some(0),
            container: Some("c1".into()),
            change: Some(ImageChange {
                container: String::new(),
                image: "v1".into(),
                at: 0,
            }),
            ..SetPod::default()
        };
        let not_ready = SetPod {
            name: "web-0".into(),
            ready_since: None,
            deletion_cost: 1,
            ..SetPod::default()
        };
        let ready = SetPod {
            name: "web-2".into(),
            change: None,
            deletion_cost: -1,
            ..in_doubt.clone()
        };
        let mut pods = [&ready, &in_doubt, &not_ready];
        sort(&mut pods, &ValidPodSet::default(), 0);
        assert_eq!(pods, [&not_ready, &in_doubt, &ready]);
    }

    #[test]
    fn outdated_pods_go_first_if_all_are_available() {
        let set = ValidPodSet {
            name: "web".into(),
            template: "new".into(),
            ..ValidPodSet::default()
        };
        let pod = |name: &str, template: &str, ready_since: Option<i64>| SetPod {
            name: name.into(),
            template: Some(template.into()),
            ready_since,
            ..SetPod::default()
        };
        let (old, new) = (pod("web-0", "old", Some(0)), pod("web-1", "new", Some(900)));
        let first = |pods: &[&SetPod]| {
            let mut pods = pods.to_vec();
            sort(&mut pods, &set, 1000);
            pods[0].name.clone()
        };
        assert_eq!(first(&[&old, &new]), "web-0");
        let starting = pod("web-2", "new", None);
        assert_eq!(first(&[&old, &new, &starting]), "web-2", "it does not serve");
        let kept = SetPod {
            deletion_cost: 1,
            ..old.clone()
        };
        assert_eq!(first(&[&kept, &new]), "web-1", "because of its deletion cost");
    }

    /// ReplicaSet compares ready pods by UID if they became ready at different times of the same magnitude, and by restarts
    /// only if they became ready at the same time.
    #[test]
    fn comparison_of_a_replica_set_is_not_transitive() {
        let goes_first = |a: (i64, i32, &str), b: (i64, i32, &str)| {
            if a.0 == b.0 { a.1 > b.1 } else { a.2 < b.2 }
        };
        let (a, b, c) = ((100, 1, "c"), (100, 0, "a"), (101, 0, "b"));
        assert!(
            goes_first(a, b) && goes_first(b, c) && goes_first(c, a),
            "it is circular"
        );
    }

    #[test]
    fn pod_on_a_crowded_node_is_deleted_first() {
        let set = ValidPodSet {
            name: "web".into(),
            ..ValidPodSet::default()
        };
        let on = |name: &str, node: &str| SetPod {
            name: name.into(),
            node: Some(node.into()),
            ..SetPod::default()
        };
        let (a, b, c) = (on("web-0", "crowded"), on("web-1", "crowded"), on("web-2", "alone"));
        let mut pods = [&c, &a, &b];
        sort(&mut pods, &set, 0);
        assert_eq!(pods, [&b, &a, &c]);
    }

    #[test]
    fn ages_of_the_same_magnitude_are_equal() {
        assert_eq!(magnitude(5), magnitude(7));
        assert_ne!(magnitude(7), magnitude(8));
        assert_eq!(magnitude(-3), magnitude(0));
    }
}
