//! Pods that end or have ended.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::harness::{POD, condition, count_of, eventually, pods_of, ready, text, uid};
use crate::podset::{pod_creates, with_nodes, without_nodes};

/// Row 8. The pod would have been the record of what it died of, had its name not been needed.
#[test]
fn ended_pods_are_replaced_and_reported_in_events() {
    let space = with_nodes("ended");
    space.ready_podset("web", json!({"replicas": 3}));
    let before = ["web-0", "web-1"].map(|pod| space.get(POD, pod));
    space.patch_status(POD, "web-0", json!({"phase": "Succeeded"}));
    let died = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    space.patch_status(POD, "web-1", died);
    for pod in &before {
        space.until_back(POD, pod);
    }
    space.until_podset_ready("web");
    assert_eq!(space.pods().len(), 3);
    let ended = || -> Vec<String> {
        let events = space.events_about_podset("web").into_iter();
        let ended = events.filter(|(reason, _)| reason == "PodEnded");
        ended.map(|(_, message)| message).collect()
    };
    eventually("Events tell of them", || ended().len() == 2);
    let of_what = [
        "web-0 has ended by itself",
        "web-1 has ended (Evicted): The node was low on resource: memory.",
    ];
    assert_eq!(ended(), of_what);
}

/// Row 8.
#[test]
fn terminating_pod_keeps_its_slot() {
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
        "2 of 3 pods are ready; web-1 must end before its successor can have its name"
    );

    space.set_podset("web", json!({"replicas": 5}));
    let set = space.until_pods("web", &["web-0", "web-2", "web-3", "web-4"]);
    assert_eq!(count_of(&set, "terminatingReplicas"), 1);
    assert_eq!(pod_creates(space.asked_since(mark)).count(), 2);
    space.remove_finalizers(POD, "web-1");
    let after = space.until_back(POD, &before);
    assert_ne!(uid(&after), uid(&before));
    let set = space.until_podset_ready("web");
    assert_eq!(count_of(&set, "terminatingReplicas"), 0);
}

/// A lost node or a third-party finalizer may keep a pod for good. It is not created again under its name, but under the next.
#[test]
fn pod_that_does_not_end_gives_up_its_slot() {
    let space = with_nodes("overdue");
    space.ready_podset("web", json!({"replicas": 2}));
    space.hold(POD, "web-1");
    let mark = space.mark();
    let params = DeleteParams::default().grace_period(1);
    space.cluster.block_on(space.api(POD).delete("web-1", &params)).unwrap();
    let set = space.until_pods("web", &["web-0", "web-2"]);
    assert_eq!(count_of(&set, "terminatingReplicas"), 1);
    let set = space.until_podset_ready("web");
    let cause = &set["status"]["cause"];
    assert_eq!(text(cause, "/reason"), "PodNotTerminating");
    assert!(text(cause, "/message").contains("web-1"), "{cause}");
    assert_eq!(
        text(cause, "/next"),
        format!("kubectl get pod web-1 -n {} -o yaml", space.name)
    );
    space.remove_finalizers(POD, "web-1");
    let set = space.until_podset("web", "the cause is removed", |set| set["status"]["cause"].is_null());
    assert_eq!(pods_of(&set), ["web-0", "web-2"]);
    assert_eq!(pod_creates(space.asked_since(mark)).count(), 1);
}

/// A kubelet rejects each pod, as one does whose node no longer fits.
#[test]
fn pods_that_are_rejected_are_replaced_later_each_time() {
    let (_operator, space) = without_nodes("rejected");
    let mark = space.mark();
    space.podset("web", json!({}));
    let mut rejected = Value::Null;
    for _ in 0..3 {
        let pod = space.until(POD, "web-0", "another pod is there", |pod| {
            !pod.is_null() && uid(pod) != uid(&rejected)
        });
        let why = json!({"phase": "Failed", "reason": "NodeAffinity", "message": "node affinity changed"});
        space.patch_status(POD, "web-0", why);
        rejected = pod;
    }
    let times: Vec<_> = pod_creates(space.asked_since(mark)).iter().map(|r| r.time).collect();
    let waits: Vec<i64> = times
        .windows(2)
        .map(|two| two[1].duration_since(two[0]).as_secs())
        .collect();
    assert_eq!(waits.len(), 2);
    assert!(waits[0] >= 4 && waits[1] >= 9, "{waits:?}");
}
