//! Pods of others: whatever label or name they have, they stay byte for byte as they are.

use std::collections::BTreeMap;

use serde_json::json;

use crate::harness::{Namespace, POD, REPLICA_SET, pods_of};
use crate::podset::{stray, with_nodes, without_nodes};

/// Row 7. A ReplicaSet, whose pods carry our label.
#[test]
fn pods_of_a_replica_set_with_the_set_label_are_not_adopted() {
    let space = with_nodes("replica-set");
    let labels = json!({"app": "legacy", "appdeploy.dev/podset": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "legacy"}}, "template": template});
    space.create(REPLICA_SET, json!({"metadata": {"name": "legacy"}, "spec": spec}));
    space.until(REPLICA_SET, "legacy", "its pods run", |set| {
        set["status"]["readyReplicas"] == 2
    });
    let legacy = bytes_of(&space, "legacy-");
    assert_eq!(legacy.len(), 2);
    space.ready_podset("web", json!({"replicas": 2}));
    let both = space.until_pods("web", &["web-0", "web-1"]);
    assert_eq!(pods_of(&both), ["web-0", "web-1"]);
    space.set_podset("web", json!({"replicas": 0}));
    space.until_pods("web", &[]);
    space.settle_podsets();
    assert_eq!(bytes_of(&space, "legacy-"), legacy);
}

/// Row 7. By UID: the owner may well have the same name. Without the garbage collector, who would take them away.
#[test]
fn pods_of_another_set_of_the_same_name_are_not_adopted() {
    let (_operator, space) = without_nodes("namesake");
    let owner = json!([{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet", "name": "web", "uid": "u-1",
        "controller": true}]);
    for pod in ["web-1", "web-x"] {
        let mut pod = stray(pod, json!({"appdeploy.dev/podset": "web"}));
        pod["metadata"]["ownerReferences"] = owner.clone();
        space.create(POD, pod);
    }
    let mut unlabelled = stray("web-2", json!({}));
    unlabelled["metadata"]["ownerReferences"] = owner;
    space.create(POD, unlabelled);
    let pods = ["web-1", "web-2", "web-x"];
    let before = pods.map(|pod| space.bytes(POD, pod));
    space.podset_of("web", json!({"replicas": 4}), &["web-0", "web-3"]);
    space.set_podset("web", json!({"replicas": 1}));
    space.until_pods("web", &["web-0"]);
    space.settle_podsets();
    assert_eq!(pods.map(|pod| space.bytes(POD, pod)), before);
    // The name of one that can be seen is used as soon as it is free.
    space.set_podset("web", json!({"replicas": 2}));
    space.until_podset("web", "it waits", |set| pods_of(set) == ["web-0"]);
    space.delete(POD, "web-1");
    space.until_pods("web", &["web-0", "web-1"]);
}

/// E3: a LimitRange writes resources into each pod, which the set did not ask for.
#[test]
fn defaults_of_a_limit_range_cause_no_write() {
    let space = with_nodes("limited");
    let limits = json!({"type": "Container", "default": {"cpu": "1", "memory": "128Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "64Mi"}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": space.name}, "spec": {"limits": [limits]}});
    space.cluster.control_plane.apply(&range.to_string()).unwrap();
    space.ready_podset("web", json!({"replicas": 2}));
    let pod = space.get(POD, "web-0");
    assert_eq!(
        pod.pointer("/spec/containers/0/resources/limits/memory"),
        Some(&json!("128Mi")),
        "the defaults are there"
    );
    let before = bytes_of(&space, "web-");
    space.settle_podsets();
    let mark = space.mark();
    space.settle_podsets();
    assert_eq!(space.asked_since(mark).tally(), BTreeMap::new());
    assert_eq!(bytes_of(&space, "web-"), before);
}

fn bytes_of(space: &Namespace, prefix: &str) -> BTreeMap<String, String> {
    let names = space.pods().into_keys().filter(|name| name.starts_with(prefix));
    names.map(|name| (name.clone(), space.bytes(POD, &name))).collect()
}
