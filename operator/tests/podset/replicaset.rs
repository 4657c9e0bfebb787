//! What Kubernetes tests of its ReplicaSets (`test/integration/replicaset`), where no other file has it.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, Patch};
use serde_json::{Value, json};

use crate::harness::{Namespace, POD, PODSET, count_of, pods_of, text, uid};
use crate::podset::{bare, operator_of, stray, with_nodes, without_nodes};

fn set_labels(set: &str) -> Value {
    json!({"appdeploy.dev/podset": set})
}

fn reference(set: &Value) -> Value {
    json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet", "name": set["metadata"]["name"], "uid": uid(set)})
}

fn controller(set: &Value) -> Value {
    let mut reference = reference(set);
    reference["controller"] = json!(true);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

/// `TestAdoption`.
#[test]
fn pods_are_adopted_unless_another_controller_owns_them() {
    let space = bare("references");
    let other =
        json!({"apiVersion": "example.com/v1", "kind": "Shop", "name": "shop", "uid": "u-1", "controller": true});
    let sets = ["owner", "free", "controller", "other"].map(|name| space.podset(name, json!({})));
    let before = [
        json!([reference(&sets[0])]),
        json!([]),
        json!([controller(&sets[2])]),
        json!([other, reference(&sets[3])]),
    ];
    for (set, references) in sets.iter().zip(&before) {
        let name = text(set, "/metadata/name");
        let mut pod = stray(&format!("pod-of-{name}"), set_labels(name));
        pod["metadata"]["ownerReferences"] = references.clone();
        space.create(POD, pod);
    }
    let foreign = space.bytes(POD, "pod-of-other");
    let _operator = operator_of(&space);
    for set in &sets[..2] {
        let name = text(set, "/metadata/name");
        let pod = format!("pod-of-{name}");
        space.until_pods(name, &[&*pod]);
        let references = &space.get(POD, &pod)["metadata"]["ownerReferences"];
        assert_eq!(*references, json!([controller(set)]), "{name}");
    }
    // Unlike a ReplicaSet's: it does not say what template it was made from, so the rollout replaces it.
    space.until_pods("controller", &["controller-0"]);
    space.until_pods("other", &["other-0"]);
    assert_eq!(space.bytes(POD, "pod-of-other"), foreign);
}

/// `TestGeneralPodAdoption`.
#[test]
fn owner_reference_without_controller_is_restored() {
    let (_operator, space) = without_nodes("demoted");
    let set = space.podset_of("web", json!({}), &["web-0"]);
    let pod = space.get(POD, "web-0");
    for is_controller in [json!(false), Value::Null] {
        let mut demoted = controller(&set);
        demoted["controller"] = is_controller;
        let references: Patch<Value> = Patch::Merge(json!({"metadata": {"ownerReferences": [demoted]}}));
        space.patch(POD, "web-0", references);
        let pod_now = space.until(POD, "web-0", "it is adopted", |pod| {
            pod["metadata"]["ownerReferences"] == json!([controller(&set)])
        });
        assert_eq!(uid(&pod_now), uid(&pod));
    }
}

/// `TestPodDeletionCost`: with the same cost the number of restarts decides, and a cost decides before it.
#[test]
fn among_pods_of_the_same_cost_those_with_more_restarts_are_deleted_first() {
    let (_operator, space) = without_nodes("restarts");
    // Neither is the one that its slot alone would give up.
    let cases = [
        ("same", [9, 0], None, "same-1"),
        ("cheaper", [0, 9], Some("-1"), "cheaper-1"),
    ];
    for (set, restarts, cost, stays) in cases {
        let pods = [0, 1].map(|slot| format!("{set}-{slot}"));
        space.podset_of(set, json!({"replicas": 2}), &pods.each_ref().map(|pod| &**pod));
        for (pod, count) in pods.iter().zip(restarts) {
            let container = json!({"name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": count,
                "containerID": "fake://1", "state": {"running": {}}});
            let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let status = json!({"phase": "Running", "conditions": [condition], "containerStatuses": [container]});
            space.patch_status(POD, pod, status);
        }
        if let Some(cost) = cost {
            let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
            space.patch(POD, &pods[0], Patch::Merge(cost));
        }
        space.until_podset_ready(set);
        space.set_podset(set, json!({"replicas": 1}));
        space.until_pods(set, &[stays]);
    }
}

/// `TestReadyAndAvailableReplicas`.
#[test]
fn ready_and_available_pods_are_counted_separately() {
    let (_operator, space) = without_nodes("mixed");
    space.podset_of(
        "web",
        json!({"replicas": 3, "minReadySeconds": 3600}),
        &["web-0", "web-1", "web-2"],
    );
    let long_ago = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    space.patch_status(POD, "web-0", json!({"phase": "Running", "conditions": [long_ago]}));
    space.pod_runs("web-1", "one", true);
    space.pod_runs("web-2", "two", false);
    let set = space.until_podset("web", "two are ready", |set| count_of(set, "readyReplicas") == 2);
    assert_eq!(
        (count_of(&set, "replicas"), count_of(&set, "availableReplicas")),
        (3, 1)
    );
}

/// `TestExtraPodsAdoptionAndDeletion`.
#[test]
fn surplus_pods_are_adopted_and_then_deleted() {
    let space = bare("extra");
    for pod in ["x", "y", "z"] {
        space.create(POD, stray(pod, set_labels("web")));
    }
    let mark = space.mark();
    space.podset("web", json!({"replicas": 2}));
    let _operator = operator_of(&space);
    let set = space.until_podset("web", "one is deleted", |set| count_of(set, "replicas") == 2);
    assert_eq!(pods_of(&set).len(), 2);
    space.settle_podsets();
    assert_eq!(space.pods().len(), 2);
    let expected = [("delete pods", 1), ("patch pods", 3)];
    let expected: BTreeMap<String, usize> = expected.map(|(what, count)| (what.to_owned(), count)).into();
    assert_eq!(space.asked_since(mark).on("pods").writes().tally(), expected);
}

/// `TestReplicaSetsAppsV1DefaultGCPolicy`: without a policy of the client, pods are deleted in the background.
#[test]
fn set_deleted_without_a_propagation_policy_deletes_its_pods() {
    let space = with_nodes("policy-default");
    space.ready_podset("web", json!({}));
    space.hold(PODSET, "web");
    space.delete_with(PODSET, "web", &DeleteParams::default());
    let set = space.until(PODSET, "web", "it is being deleted", |set| {
        !set["metadata"]["deletionTimestamp"].is_null()
    });
    assert_eq!(set["metadata"]["finalizers"], json!(["test.appdeploy.dev/held"]));
    space.remove_finalizers(PODSET, "web");
    space.until_gone(PODSET, "web");
    space.until_gone(POD, "web-0");
}

/// `TestSpecReplicasChange`.
#[test]
fn observed_generation_follows_scaling_and_template_changes() {
    let space = with_nodes("generations");
    space.ready_podset("web", json!({"replicas": 2}));
    for (generation, count) in [(2, 3), (3, 0), (4, 2)] {
        space.set_podset("web", json!({"replicas": count}));
        let set = space.until_podset("web", "it is scaled", |set| count_of(set, "replicas") == count);
        assert_eq!(count_of(&set, "observedGeneration"), generation);
    }
    space.set_podset(
        "web",
        json!({"template": {"image": "app", "env": [{"name": "TEST", "value": "generation"}]}}),
    );
    let set = space.until_podset("web", "it is observed", |set| count_of(set, "observedGeneration") == 5);
    assert_eq!(set["metadata"]["generation"], 5);
}

/// `TestOverlappingRSs`. Selectors of sets never overlap; their names may look as if the pods did.
#[test]
fn sets_with_overlapping_names_have_separate_pods() {
    let space = with_nodes("overlap");
    let names = ["web", "web-0", "web-0-0"];
    let sets = names.map(|name| space.podset(name, json!({"replicas": 3})));
    for set in &sets {
        let name = text(set, "/metadata/name");
        space.until_podset_ready(name);
        let pods = [0, 1, 2].map(|slot| format!("{name}-{slot}"));
        space.until_pods(name, &pods.each_ref().map(|pod| &**pod));
        for pod in &pods {
            assert_eq!(text(&space.get(POD, pod), "/metadata/ownerReferences/0/uid"), uid(set));
        }
    }
    assert_eq!(all_controllers(&space), 9);
}

fn all_controllers(space: &Namespace) -> usize {
    let pods = space.pods();
    let owned = pods.values().filter(|pod| {
        pod["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    owned.count()
}
