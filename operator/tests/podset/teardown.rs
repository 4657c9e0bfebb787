//! A set is deleted: its pods are deleted with it, or stay, as the client chooses.
//!
//! Half a minute may pass until the garbage collector has heard of a kind that is younger than itself, so that these
//! tests are best run last.

use std::collections::BTreeSet;

use kube::api::DeleteParams;
use serde_json::json;

use crate::harness::{POD, PODSET, count_of, pods_of, ready, text, uid};
use crate::podset::{pod_writes, with_nodes};

/// Row 12. The pods are the garbage collector's.
#[test]
fn terminating_set_writes_only_its_status() {
    let space = with_nodes("foreground");
    space.ready_podset("web", json!({"replicas": 3}));
    space.hold(POD, "web-0");
    let mark = space.mark();
    space.delete_with(PODSET, "web", &DeleteParams::foreground());
    let set = space.until(PODSET, "web", "its status reports it", |set| {
        count_of(set, "replicas") == 0 && count_of(set, "terminatingReplicas") == 1
    });
    assert_eq!(ready(&set), ("False", "Deleting"));
    assert_eq!(pods_of(&set), [""; 0]);
    space.remove_finalizers(POD, "web-0");
    space.until_gone(PODSET, "web");
    assert!(space.pods().is_empty());
    assert_eq!(pod_writes(space.asked_since(mark)).tally(), [].into());
}

#[test]
fn pods_are_deleted_in_the_background() {
    let space = with_nodes("background");
    space.ready_podset("web", json!({"replicas": 3}));
    let mark = space.mark();
    space.delete_with(PODSET, "web", &DeleteParams::background());
    for pod in ["web-0", "web-1", "web-2"] {
        space.until_gone(POD, pod);
    }
    assert_eq!(pod_writes(space.asked_since(mark)).tally(), [].into());
}

/// Row 6.
#[test]
fn orphans_are_adopted_by_a_new_set_of_the_same_name() {
    let space = with_nodes("orphaned");
    space.ready_podset("web", json!({"replicas": 3}));
    let before = space.pod_uids();
    let mark = space.mark();
    space.delete_with(PODSET, "web", &DeleteParams::orphan());
    space.until_gone(PODSET, "web");
    for pod in space.pods().values() {
        assert_eq!(pod["metadata"].get("ownerReferences"), None);
    }
    assert_eq!(pod_writes(space.asked_since(mark)).tally(), [].into());
    let set = space.ready_podset("web", json!({"replicas": 3}));
    assert_eq!(space.pod_uids(), before);
    for pod in space.pods().values() {
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], uid(&set));
    }
    let asked = pod_writes(space.asked_since(mark));
    assert_eq!(asked.tally(), [("patch pods".to_owned(), 3)].into());
}

/// Row 2.
#[test]
fn recreated_set_gets_new_pods() {
    let space = with_nodes("recreated");
    space.ready_podset("web", json!({"replicas": 5}));
    let before: BTreeSet<String> = space.pod_uids().into_values().collect();
    let mark = space.mark();
    space.delete(PODSET, "web");
    let set = space.ready_podset("web", json!({"replicas": 5}));
    let pods = space.pods();
    assert_eq!(pods.len(), 5);
    for pod in pods.values() {
        assert!(!before.contains(uid(pod)), "it is of the set before");
        assert_eq!(text(pod, "/metadata/ownerReferences/0/uid"), uid(&set));
    }
    let deletes = space.asked_since(mark).that(|request| request.verb == "delete");
    assert_eq!(
        deletes.count(),
        0,
        "what was the first one's is the garbage collector's"
    );
}
