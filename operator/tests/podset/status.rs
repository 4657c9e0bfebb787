//! The status of a set, for users, `kubectl scale` and autoscalers.

use serde_json::{Value, json};

use crate::harness::{HPA, PODSET, condition, count_of, pods_of, ready, text};
use crate::podset::{pod_writes, with_nodes};

/// Row 13.
#[test]
fn status_reports_the_observed_spec_and_is_not_written_again() {
    let space = with_nodes("steady");
    let set = space.ready_podset("web", json!({"replicas": 2}));
    assert_eq!(set["status"]["observedGeneration"], set["metadata"]["generation"]);
    space.set_podset("web", json!({"replicas": 3}));
    let set = space.until_podset("web", "it is scaled", |set| count_of(set, "availableReplicas") == 3);
    assert_eq!(set["status"]["observedGeneration"], 2);
    let transition = |set: &Value| condition(set, "Ready").unwrap()["lastTransitionTime"].clone();
    let expected = json!({
        "observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3,
        "terminatingReplicas": 0, "podNames": ["web-0", "web-1", "web-2"], "selector": "appdeploy.dev/podset=web",
        "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "message": "3 pods are ready",
            "observedGeneration": 2, "lastTransitionTime": transition(&set)}],
    });
    assert_eq!(set["status"], expected);
    let mark = space.mark();
    space.settle_podsets();
    assert_eq!(space.asked_since(mark).tally(), [].into());
    assert_eq!(space.get(PODSET, "web")["status"], expected);
}

/// Row 15. Waiting pods cause no status.
#[test]
fn pods_become_available_without_an_event() {
    let space = with_nodes("min-ready");
    space.podset("web", json!({"replicas": 3, "minReadySeconds": 4}));
    let set = space.until_podset("web", "they are ready", |set| count_of(set, "readyReplicas") == 3);
    assert_eq!((ready(&set).0, count_of(&set, "availableReplicas")), ("False", 0));
    let message = text(condition(&set, "Ready").unwrap(), "/message");
    assert_eq!(message, "3 of 3 pods are ready, 0 for long enough");
    let audit = space.cluster.control_plane.audit();
    let mark = audit.mark().unwrap();
    let set = space.until_podset_ready("web");
    assert_eq!(count_of(&set, "availableReplicas"), 3);
    let writes = audit.since(mark).unwrap().in_namespace(&space.name);
    assert_eq!(pod_writes(writes).tally(), [].into());
}

#[test]
fn kubectl_shows_and_scales_a_set() {
    let space = with_nodes("scale");
    space.ready_podset("web", json!({"template": {"image": "busybox"}}));
    let said = space.kubectl(&["scale", "podset", "web", "--replicas=3"]);
    assert_eq!(said.trim(), "podset.appdeploy.dev/web scaled");
    space.until_pods("web", &["web-0", "web-1", "web-2"]);
    space.until_podset_ready("web");
    let table = space.kubectl(&["get", "podset"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "PODS", "REASON", "AGE"]);
    assert_eq!(rows[1][..4], ["web", "True", "3", "Available"]);
    let wide = space.kubectl(&["get", "pset", "-o", "wide"]);
    assert!(wide.contains("UPDATED") && wide.contains("busybox"), "{wide}");

    let path = format!(
        "/apis/appdeploy.dev/v1alpha1/namespaces/{}/podsets/web/scale",
        space.name
    );
    let scale: Value = serde_json::from_str(&space.kubectl(&["get", "--raw", &path])).unwrap();
    assert_eq!(scale["spec"], json!({"replicas": 3}));
    assert_eq!(
        scale["status"],
        json!({"replicas": 3, "selector": "appdeploy.dev/podset=web"})
    );
    let set = space.get(PODSET, "web");
    let selector = text(&set, "/status/selector");
    let selected = space.kubectl(&["get", "pods", "-o", "name", "-l", selector]);
    assert_eq!(
        selected.lines().collect::<Vec<_>>(),
        ["pod/web-0", "pod/web-1", "pod/web-2"]
    );
    space.kubectl(&["scale", "podset", "web", "--replicas=0"]);
    let set = space.until_podset("web", "it is stopped", |set| ready(set).1 == "ScaledToZero");
    assert_eq!((ready(&set).0, pods_of(&set).len()), ("True", 0));
}

/// The autoscaler finds out what it scales, and how far it is; there are no metrics here to scale by.
#[test]
fn autoscaler_finds_the_set_that_it_scales() {
    let space = with_nodes("autoscale");
    space.ready_podset("web", json!({"replicas": 2}));
    space.kubectl(&["autoscale", "podset", "web", "--min=2", "--max=5"]);
    let able = space.until(HPA, "web", "it has found the set", |hpa| {
        condition(hpa, "AbleToScale").is_some_and(|able| able["status"] == "True")
            && condition(hpa, "ScalingActive").is_some()
    });
    assert_eq!(able["spec"]["scaleTargetRef"]["kind"], "PodSet");
    assert_eq!(able["status"]["currentReplicas"], 2);
    let active = condition(&able, "ScalingActive").unwrap();
    assert_eq!(
        text(active, "/reason"),
        "FailedGetResourceMetric",
        "the selector is understood"
    );
}
