//! Pods that end or have ended.

use serde_json::json;

use crate::harness::{POD, condition, count_of, eventually, pods_of, ready, text, uid};
use crate::{pod_creates, with_nodes};

/// Row 8. The pod would have been the record of what it died of, had its name not been needed.
#[test]
fn a_pod_that_has_failed_is_replaced_and_an_event_tells_of_what() {
    let space = with_nodes("failed");
    space.ready_podset("web", json!({"replicas": 2}));
    let before = space.get(POD, "web-1");
    let died = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    space.patch_status(POD, "web-1", died);
    space.until_back(POD, &before);
    space.until_podset_ready("web");
    assert_eq!(space.pods().len(), 2);
    let ended = || {
        space
            .events_about_podset("web")
            .into_iter()
            .find(|(reason, _)| reason == "PodEnded")
    };
    eventually("an Event tells of it", || ended().is_some());
    let words = "web-1 has ended (Evicted): The node was low on resource: memory.";
    assert_eq!(ended().unwrap().1, words);
}

/// Row 8.
#[test]
fn a_pod_that_has_succeeded_is_replaced() {
    let space = with_nodes("succeeded");
    space.ready_podset("web", json!({}));
    let before = space.get(POD, "web-0");
    space.patch_status(POD, "web-0", json!({"phase": "Succeeded"}));
    space.until_podset("web", "it does not count", |set| count_of(set, "replicas") == 0);
    space.until_back(POD, &before);
    space.until_podset_ready("web");
}

/// Row 8.
#[test]
fn a_pod_that_ends_keeps_its_slot_and_no_other() {
    let space = with_nodes("ending");
    space.ready_podset("web", json!({"replicas": 3}));
    let before = space.get(POD, "web-1");
    space.hold(POD, "web-1");
    let mark = space.mark();
    space.delete(POD, "web-1");
    let set = space.until_podset("web", "it is counted", |set| count_of(set, "terminatingReplicas") == 1);
    assert_eq!(pods_of(&set), ["web-0", "web-2"]);
    assert_eq!(ready(&set), ("False", "Progressing"));
    let message = text(condition(&set, "Ready").unwrap(), "/message");
    assert_eq!(
        message,
        "2 of 3 pods are ready; web-1 has to end before its successor can have its name"
    );

    space.set_podset("web", json!({"replicas": 5}));
    let set = space.until_pods("web", &["web-0", "web-2", "web-3", "web-4"]);
    assert_eq!(count_of(&set, "terminatingReplicas"), 1);
    assert_eq!(pod_creates(space.asked_since(mark)).count(), 2);
    space.let_go(POD, "web-1");
    let after = space.until_back(POD, &before);
    assert_ne!(uid(&after), uid(&before));
    let set = space.until_podset_ready("web");
    assert_eq!(count_of(&set, "terminatingReplicas"), 0);
}
