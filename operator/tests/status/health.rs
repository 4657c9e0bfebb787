//! Why a pod is not healthy: the operator asks once for the kubelet's Events about it.

use serde_json::json;

use crate::harness::{APP, DEPLOYMENT, EVENT, POD, text, uid};
use crate::status::namespace;

#[test]
fn answer_of_a_health_check_is_fetched_once_and_reported() {
    let shop = namespace("health");
    let mark = shop.mark();
    shop.unhealthy_app("shop");
    let words = "the pods run, but GET /healthz on port 8080 answers with status 503";
    let app = shop.until(APP, "shop", "the answer is reported", |app| {
        text(app, "/status/cause/message") == words
    });
    let next = "kubectl appdeploy logs shop -n health";
    assert_eq!(text(&app, "/status/cause/next"), next);

    // The app is reconciled again, and its pod is the same.
    shop.patch_status(POD, "shop-1", json!({"message": "something else"}));
    shop.patch_status(DEPLOYMENT, "shop", json!({"replicas": 2}));
    shop.until(APP, "shop", "it was reconciled", |app| app["status"]["replicas"] == 2);
    shop.settle();
    let asked = shop
        .asked_since(mark)
        .on("events")
        .that(|request| request.verb == "list");
    assert_eq!(asked.count(), 1, "{:?}", asked.tally());
}

#[test]
fn cause_of_a_pod_that_does_not_start_is_fetched_once_and_reported() {
    let shop = namespace("unstarted");
    let mark = shop.mark();
    shop.settled_app(
        "shop",
        json!({"image": "nginx", "resources": {"limits": {"memory": "64"}}}),
    );
    let seen = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1});
    shop.patch_status(DEPLOYMENT, "shop", seen);
    let limits = json!({"limits": {"memory": "64"}});
    let pod = shop.create(
        POD,
        json!({"metadata": {"name": "shop-1", "labels": {"appdeploy.dev/app": "shop"}},
            "spec": {"containers": [{"name": "app", "image": "nginx", "resources": limits}]}}),
    );
    let about =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "shop-1", "namespace": "unstarted", "uid": uid(&pod)});
    let time = "2026-01-01T00:00:00Z";
    for (name, reason, message) in [
        ("shop-1.1", "DNSConfigForming", "Search Line limits were exceeded"),
        (
            "shop-1.2",
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start \
            sandbox: OCI runtime create failed: container init was OOM-killed (memory limit too low?)",
        ),
    ] {
        shop.create(
            EVENT,
            json!({"metadata": {"name": name}, "type": "Warning", "reason": reason, "message": message,
                "lastTimestamp": time, "involvedObject": about}),
        );
    }
    let own = json!({"name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": 0, "started": false,
        "state": {"waiting": {"reason": "ContainerCreating"}}});
    let sandbox = json!({"type": "PodReadyToStartContainers", "status": "False"});
    let status = json!({"phase": "Pending", "startTime": time, "conditions": [sandbox], "containerStatuses": [own]});
    shop.patch_status(POD, "shop-1", status);

    let words = "resources.limits.memory is 64 bytes, too little to start a container";
    let app = shop.until(APP, "shop", "the cause is reported", |app| {
        text(app, "/status/cause/message") == words
    });
    let next = "kubectl appdeploy set resources shop --limits=memory=64Mi -n unstarted";
    assert_eq!(text(&app, "/status/cause/next"), next);

    // The app is reconciled again, and its pod is the same.
    shop.patch_status(DEPLOYMENT, "shop", json!({"replicas": 2}));
    shop.until(APP, "shop", "it was reconciled", |app| app["status"]["replicas"] == 2);
    shop.settle();
    let asked = shop
        .asked_since(mark)
        .on("events")
        .that(|request| request.verb == "list");
    assert_eq!(asked.count(), 1, "{:?}", asked.tally());
}
