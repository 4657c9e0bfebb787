//! Which pods to give up first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{SetPod, Wanted};

/// Sorts pods so that the first is the one to give up first, as ReplicaSet does
/// (`ActivePodsWithRanks` in `pkg/controller/controller_utils.go` of Kubernetes): without a node, then pending,
/// then of unknown phase, then not ready, then cheaper, then with more of its kind on its node, then ready for a
/// shorter time, then restarted more often, then younger.
///
/// A pod that is about to restart, for another image, counts as not ready.
///
/// As there, times count by their order of magnitude, so that pods of about the same age are equal. Where
/// ReplicaSet then decides by chance, here the highest slot goes: the low names stay.
pub fn sort(pods: &mut [&SetPod], set: &Wanted, now: i64) {
    let mut neighbours: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for pod in pods.iter() {
        *neighbours.entry(pod.node.as_deref()).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        (
            pod.node.is_some(),
            pod.phase,
            pod.serves_since(now).is_some(),
            pod.deletion_cost,
            Reverse(neighbours.get(&pod.node.as_deref()).copied()),
            pod.serves_since(now).map(|since| magnitude(now - since)),
            Reverse(pod.restarts),
            magnitude(now - pod.created),
            Reverse(set.slot_of(&pod.name).unwrap_or(u16::MAX)),
            pod.name.clone(),
        )
    });
}

/// Returns the order of magnitude of an age in seconds, to the base of two; everything below one is the same.
fn magnitude(age: i64) -> u32 {
    age.max(0).checked_ilog2().map_or(0, |magnitude| magnitude + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{ImageChange, Phase};
    use super::*;

    /// Row by row, the one that goes first stands first.
    #[test]
    fn pods_are_given_up_in_the_order_of_a_replica_set() {
        let set = Wanted {
            name: "web".into(),
            ..Wanted::default()
        };
        let now = 10_000;
        let best = SetPod {
            name: "web-0".into(),
            node: Some("a".into()),
            phase: Phase::Running,
            ready_since: Some(0),
            ..SetPod::default()
        };
        let worse: [(&str, SetPod); 9] = [
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
        // Each loses against the best alone, and against all that stand behind it.
        for (at, (what, pod)) in worse.iter().enumerate() {
            for (other, rival) in worse[at + 1..].iter().chain([&("the best", best.clone())]) {
                let mut pods = [rival, pod];
                sort(&mut pods, &set, now);
                assert_eq!(pods[0], pod, "{what} goes before {other}");
            }
        }
    }

    /// What is ready there is what is about to go.
    #[test]
    fn a_pod_whose_image_is_being_changed_counts_as_not_ready() {
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
        sort(&mut pods, &Wanted::default(), 0);
        assert_eq!(pods[0], &restarting);
    }

    #[test]
    fn a_crowded_node_is_relieved_first() {
        let set = Wanted {
            name: "web".into(),
            ..Wanted::default()
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
