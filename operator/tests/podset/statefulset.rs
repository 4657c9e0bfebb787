//! What Kubernetes tests of each `StatefulSet` (`test/integration/statefulset`), where it applies to pods with the names
//! of slots and no other file has it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Namespace, POD, condition, count_of, ready, text};
use crate::podset::refusals::{allow_no_pods, allow_pods};
use crate::podset::{pod_writes, without_nodes};

fn uids_of(space: &Namespace, pods: &[&str]) -> BTreeMap<String, String> {
    let mut uids = space.pod_uids();
    uids.retain(|pod, _| pods.contains(&&**pod));
    uids
}

/// `TestDeletingAndTerminatingPods`: also of a pod that fails while it is being deleted.
#[test]
fn terminating_pods_are_replaced_after_their_deletion_and_not_deleted_again() {
    let (_operator, space) = without_nodes("terminating-pods");
    let all = ["web-0", "web-1", "web-2", "web-3", "web-4"];
    space.podset_of("web", json!({"replicas": 5}), &all);
    let others = ["web-0", "web-2", "web-4"];
    let (before, mark) = (uids_of(&space, &others), space.mark());
    let terminating = ["web-1", "web-3"].map(|pod| {
        space.hold(POD, pod);
        space.delete(POD, pod);
        space.get(POD, pod)
    });
    space.patch_status(POD, "web-3", json!({"phase": "Failed"}));
    let set = space.until_podset("web", "two are terminating", |set| {
        count_of(set, "terminatingReplicas") == 2
    });
    assert_eq!(count_of(&set, "replicas"), 3);
    space.settle_podsets();
    assert_eq!(
        pod_writes(space.asked_since(mark)).without("pods/status").tally(),
        [].into()
    );
    for pod in &terminating {
        space.remove_finalizers(POD, text(pod, "/metadata/name"));
        space.until_back(POD, pod);
    }
    space.until_pods("web", &all);
    assert_eq!(uids_of(&space, &others), before);
}

/// `TestStatefulSetStatusWithPodFail`.
#[test]
fn status_counts_the_created_pods() {
    let (_operator, space) = without_nodes("partial");
    allow_no_pods(&space);
    space.podset("web", json!({"replicas": 4}));
    space.until_podset("web", "none can be created", |set| count_of(set, "replicas") == 0);
    allow_pods(&space, "3");
    space.until_pods("web", &["web-0", "web-1", "web-2"]);
    for pod in ["web-0", "web-1"] {
        space.pod_runs(pod, "one", true);
    }
    let set = space.until_podset("web", "two are ready", |set| count_of(set, "readyReplicas") == 2);
    assert_eq!(count_of(&set, "replicas"), 3);
    assert_eq!(
        text(condition(&set, "ReplicaFailure").unwrap(), "/reason"),
        "FailedCreate"
    );
}

/// `TestDeletingPodForRollingUpdatePartition`: a pod that does not terminate delays the rollout.
#[test]
fn rollout_waits_for_a_pod_that_does_not_terminate() {
    let (_operator, space) = without_nodes("stuck-rollout");
    let all = ["web-0", "web-1", "web-2"];
    space.podset_of("web", json!({"replicas": 3}), &all);
    for pod in all {
        space.pod_runs(pod, "old", true);
    }
    space.until_podset_ready("web");
    let stuck = space.get(POD, "web-1");
    space.hold(POD, "web-1");
    space.delete(POD, "web-1");
    space.until_podset("web", "it is stuck", |set| count_of(set, "terminatingReplicas") == 1);
    let before = uids_of(&space, &["web-0", "web-2"]);
    space.set_podset(
        "web",
        json!({"template": {"image": "app", "env": [{"name": "NEW", "value": "1"}]}}),
    );
    space.settle_podsets();
    assert_eq!(uids_of(&space, &["web-0", "web-2"]), before, "the rollout waits");

    space.remove_finalizers(POD, "web-1");
    let mut next = space.until_back(POD, &stuck);
    assert!(is_new(&next));
    for (running, deleted) in [("web-1", "web-2"), ("web-2", "web-0")] {
        let before = space.get(POD, deleted);
        space.pod_runs(running, "new", true);
        next = space.until_back(POD, &before);
        assert!(is_new(&next), "{next:#}");
    }
    space.pod_runs("web-0", "new", true);
    space.until_podset("web", "all are new", |set| {
        count_of(set, "updatedReplicas") == 3 && ready(set).0 == "True"
    });
}

fn is_new(pod: &Value) -> bool {
    let env = pod.pointer("/spec/containers/0/env").and_then(Value::as_array);
    env.is_some_and(|env| env.iter().any(|var| var["name"] == "NEW"))
}
