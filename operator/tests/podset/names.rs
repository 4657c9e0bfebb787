//! A third-party pod has a name that a set needs: the pod is not changed, the set reports it, and fills its other slots.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{POD, QUIET, condition, eventually, pods_of, ready, text};
use crate::podset::{pod_creates, stray, without_nodes};

#[test]
fn third_party_pod_with_the_name_is_kept_and_reported() {
    let (_operator, space) = without_nodes("conflict");
    space.create(POD, stray("web-1", json!({"app": "legacy"})));
    let before = space.bytes(POD, "web-1");
    let mark = space.mark();
    space.podset("web", json!({"replicas": 4}));
    let set = space.until_podset("web", "its status reports it", |set| ready(set).1 == "NameConflict");
    let cause = &set["status"]["cause"];
    assert_eq!(
        text(cause, "/message"),
        "Pod web-1 exists and is not managed by appdeploy"
    );
    assert_eq!(text(cause, "/next"), "kubectl get pod web-1 -n conflict -o yaml");
    assert_eq!(pods_of(&set), ["web-0", "web-2", "web-3"]);
    assert!(condition(&set, "Stalled").is_some(), "a user must act");
    std::thread::sleep(QUIET);
    let creates = pod_creates(space.asked_since(mark));
    let failed = creates.clone().failed().count();
    assert_eq!(creates.count() - failed, 3);
    assert!(
        failed <= 6,
        "{failed} tries: what was found taken is tried again, each time later"
    );
    assert_eq!(space.bytes(POD, "web-1"), before);
    let reasons: BTreeMap<String, String> = space.events_about_podset("web").into_iter().collect();
    assert_eq!(reasons.into_keys().collect::<Vec<_>>(), ["NameConflict"]);

    space.delete(POD, "web-1");
    let set = space.until_pods("web", &["web-0", "web-1", "web-2", "web-3"]);
    assert_eq!(ready(&set), ("False", "Progressing"));
    assert_eq!(set["status"].get("cause"), None);
}

/// The controller of the pod is reported, also if the pod was created later.
#[test]
fn owner_of_the_name_is_reported() {
    let (_operator, space) = without_nodes("conflict-owned");
    space.podset_of("web", json!({}), &["web-0"]);
    let mut foreign = stray("web-1", json!({}));
    foreign["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "example.com/v1", "kind": "Shop", "name": "legacy", "uid": "u-1", "controller": true}]);
    space.create(POD, foreign);
    let before = space.bytes(POD, "web-1");
    space.set_podset("web", json!({"replicas": 3}));
    let set = space.until_podset("web", "its status reports it", |set: &Value| {
        ready(set).1 == "NameConflict"
    });
    assert_eq!(
        text(&set, "/status/cause/message"),
        "Pod web-1 exists and belongs to Shop legacy"
    );
    assert_eq!(pods_of(&set), ["web-0", "web-2"]);
    // Who needs it no more has no conflict.
    space.set_podset("web", json!({"replicas": 2}));
    let set = space.until_podset("web", "the conflict is over", |set| ready(set).1 == "Progressing");
    assert_eq!(pods_of(&set), ["web-0", "web-2"]);
    assert_eq!(space.bytes(POD, "web-1"), before);
}

/// No watch reports the deletion of a third-party pod, and so when its name is free.
#[test]
fn name_of_a_pod_that_no_watch_reports_is_checked_again() {
    let (_operator, space) = without_nodes("unseen");
    space.create(POD, stray("web-0", json!({})));
    space.hold(POD, "web-0");
    space.delete(POD, "web-0");
    space.podset_of("web", json!({"replicas": 2}), &["web-1"]);
    space.remove_finalizers(POD, "web-0");
    eventually("its name is free", || space.get(POD, "web-0").is_null());
    space.until_pods("web", &["web-0", "web-1"]);
}
