//! The status says how an application is, on every outcome, as `kubectl wait` and kstatus read it.
//!
//! Nothing runs pods here: a test says what the Deployment's controller, the kubelet or an ingress controller
//! would say, and looks at what the operator makes of it.

mod exposure;
mod health;
mod output;
mod unreadable;

use std::time::Instant;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, Namespace, POD, QUIET, SERVICE, Shared, VALIDATING_WEBHOOK, condition, is_observed,
    ready, text, web,
};

fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&[]))
        .namespace(name)
}

/// Returns the types of the conditions that are True.
fn holds(app: &Value) -> Vec<&str> {
    let conditions = app["status"]["conditions"].as_array().unwrap();
    let mut holds: Vec<&str> = conditions
        .iter()
        .filter(|condition| condition["status"] == "True")
        .map(|condition| text(condition, "/type"))
        .collect();
    holds.sort_unstable();
    holds
}

fn is_ready(app: &Value) -> bool {
    is_observed(app) && ready(app).0 == "True"
}

#[test]
fn app_is_reconciling_until_it_is_ready() {
    let shop = namespace("ready");
    let app = shop.settled_app("shop", json!({"image": "nginx:1.27", "port": 80, "replicas": 2}));
    assert_eq!(ready(&app), ("False", "Progressing"));
    assert_eq!(holds(&app), ["Reconciling"]);
    assert_eq!(app["status"].get("cause"), None, "progress has no cause");

    shop.pods_become_ready("shop");
    let app = shop.until(APP, "shop", "it is ready", is_ready);
    assert_eq!(ready(&app), ("True", "Available"));
    assert_eq!(holds(&app), ["Ready"]);
    let status = &app["status"];
    assert_eq!(
        json!([
            status["replicas"],
            status["readyReplicas"],
            status["updatedReplicas"],
            status["url"]
        ]),
        json!([2, 2, 2, "http://shop.ready/"])
    );
    // No controller serves the Ingress, and the pods are ready.
    assert_eq!(text(condition(&app, "Exposed").unwrap(), "/reason"), "NoIngressClass");
    assert!(
        shop.events_about("shop").is_empty(),
        "nothing of this is worth an Event"
    );
}

/// Writes a condition as another controller would, with a time that is never the same.
fn set_foreign_condition(shop: &Namespace, kind: crate::harness::Kind, name: &str, second: u32) {
    let condition = json!({"type": "example.com/Scanned", "status": "True", "reason": "Clean", "message": "",
        "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")});
    let (object, params) = (shop.get(kind, name), kube::api::PatchParams::apply("scanner").force());
    let status =
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "status": {"conditions": [condition]}});
    let (api, patch) = (shop.api(kind), kube::api::Patch::Apply(&status));
    shop.cluster
        .block_on(api.patch_subresource("status", name, &params, &patch))
        .unwrap();
}

#[test]
fn conditions_of_other_writers_are_kept_and_cost_no_write() {
    let shop = namespace("conditions");
    shop.settled_app("shop", web());
    shop.podset_of("set", json!({"replicas": 1}), &["set-0"]);
    for (kind, name) in [(APP, "shop"), (crate::harness::PODSET, "set")] {
        shop.until(kind, name, "the status is about the current spec", is_observed);
        std::thread::sleep(QUIET);
        let mark = shop.mark();
        for second in 0..5 {
            set_foreign_condition(&shop, kind, name, second);
            std::thread::sleep(QUIET / 5);
        }
        std::thread::sleep(QUIET);
        let scanned = |object: &Value| condition(object, "example.com/Scanned").is_some();
        assert!(
            scanned(&shop.get(kind, name)),
            "{}: {:#}",
            kind.name(),
            shop.get(kind, name)
        );
        assert_eq!(
            shop.asked_since(mark).tally(),
            std::collections::BTreeMap::new(),
            "{}",
            kind.name()
        );
        // A status that changes keeps it, too.
        shop.patch(kind, name, kube::api::Patch::Merge(json!({"spec": {"replicas": 0}})));
        let object = shop.until(kind, name, "the status is about the new spec", is_observed);
        assert!(scanned(&object), "{object:#}");
    }
}

#[test]
fn kubectl_prints_the_status() {
    let shop = namespace("kubectl");
    shop.settled_app("shop", web());
    shop.pods_become_ready("shop");
    shop.kubectl(&["wait", "--for=condition=Ready", "appdeploy/shop", "--timeout=30s"]);
    let table = shop.kubectl(&["get", "ad"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "PODS", "REASON", "URL", "AGE"]);
    assert_eq!(rows[1][..5], ["shop", "True", "1", "Available", "http://shop.kubectl/"]);
    assert_eq!(rows.len(), 2, "{table}");
    let wide = shop.kubectl(&["get", "appdeploy", "-o", "wide", "--no-headers"]);
    assert!(
        wide.contains("nginx:1.27") && wide.trim_end().ends_with("1 pod is ready"),
        "{wide}"
    );
}

/// Neither the status nor a condition speaks of a spec that it has not seen.
#[test]
fn observed_generation_follows_the_spec() {
    let shop = namespace("generation");
    shop.settled_app("shop", web());
    shop.pods_become_ready("shop");
    shop.until(APP, "shop", "it is ready", is_ready);
    shop.set("shop", json!({"image": "nginx:1.28"}));
    let app = shop.until_reported("shop");
    assert_eq!(app["metadata"]["generation"], 2);
    for condition in app["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["observedGeneration"], 2, "{condition}");
    }
    assert_eq!(ready(&app), ("False", "Progressing"), "the new pods are not there yet");
    shop.pods_become_ready("shop");
    shop.until(APP, "shop", "it is ready again", is_ready);
}

#[test]
fn app_scaled_to_zero_is_ready() {
    let shop = namespace("zero");
    shop.settled_app("shop", json!({"image": "nginx:1.27", "replicas": 0}));
    shop.pods_become_ready("shop");
    let app = shop.until(APP, "shop", "it is ready", is_ready);
    assert_eq!(ready(&app), ("True", "ScaledToZero"));
    assert_eq!(app["status"]["replicas"], 0);
}

/// A webhook for Deployments does not prevent the Service, and is named.
#[test]
fn webhook_that_does_not_answer_is_reported_and_prevents_only_its_kind() {
    let shop = namespace("webhook-down");
    let rules =
        json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]);
    shop.create(
        VALIDATING_WEBHOOK,
        json!({"metadata": {"name": "webhook-down"}, "webhooks": [{
            "name": "down.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": rules, "failurePolicy": "Fail",
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "webhook-down"}}}]}),
    );
    shop.app("shop", web());
    let app = shop.until(APP, "shop", "the webhook is reported", |app| {
        text(app, "/status/cause/message").contains("failed calling webhook \"down.example.com\"")
    });
    assert_eq!(ready(&app), ("Unknown", "ApiUnavailable"));
    assert_eq!(
        text(&app, "/status/cause/next"),
        "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations"
    );
    shop.until_there(SERVICE, "shop");
    shop.delete(VALIDATING_WEBHOOK, "webhook-down");
    shop.until_there(DEPLOYMENT, "shop");
}

/// What only a person can change is Stalled, with what to do next, and an Event; then all of that goes.
#[test]
fn rejected_app_is_stalled_until_it_is_changed() {
    let shop = namespace("refused");
    let mut spec = web();
    spec["resources"] = json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}});
    let app = shop.settled_app("shop", spec);
    assert_eq!(ready(&app), ("False", "Rejected"));
    assert_eq!(holds(&app), ["Stalled"]);
    let cause = &app["status"]["cause"];
    assert_eq!(text(cause, "/reason"), "Rejected");
    assert!(
        text(cause, "/message").contains("must be equal to example.com/gpu limit"),
        "{cause}"
    );
    assert_eq!(text(cause, "/next"), "kubectl appdeploy edit shop -n refused");
    // The Service does not wait for the Deployment.
    assert!(!shop.get(SERVICE, "shop").is_null());
    crate::harness::eventually("an Event reports it", || !shop.events_about("shop").is_empty());

    std::thread::sleep(QUIET);
    assert_eq!(
        shop.events_about("shop"),
        ["Rejected"],
        "once, however often it was tried"
    );
    let event = &shop.app_events("shop")[0];
    assert_eq!(
        (text(event, "/type"), text(event, "/message")),
        ("Warning", text(cause, "/message"))
    );

    shop.set("shop", json!({"resources": {"limits": {"example.com/gpu": 1}}}));
    shop.until(APP, "shop", "it is on its way", |app| {
        is_observed(app) && ready(app) == ("False", "Progressing")
    });
    let app = shop.get(APP, "shop");
    assert_eq!((holds(&app), app["status"].get("cause")), (vec!["Reconciling"], None));
}

/// What a pod says of itself becomes the cause, and ends with the pod.
#[test]
fn cause_is_the_problem_of_the_pods() {
    let shop = namespace("pods");
    shop.settled_app("shop", json!({"image": "nginx:nope"}));
    // The Deployment's controller has seen the spec, and made the pod.
    let seen = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1});
    shop.patch_status(DEPLOYMENT, "shop", seen);
    let labels = json!({"appdeploy.dev/app": "shop"});
    let containers = json!([{"name": "app", "image": "nginx:nope"}]);
    shop.create(
        POD,
        json!({"metadata": {"name": "shop-1", "labels": labels}, "spec": {"containers": containers}}),
    );
    let message = r#"Back-off pulling image "nginx:nope": ErrImagePull: failed to resolve: nginx:nope: not found"#;
    let waiting = json!({"name": "app", "image": "nginx:nope", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}});
    shop.patch_status(
        POD,
        "shop-1",
        json!({"phase": "Pending", "containerStatuses": [waiting]}),
    );
    let app = shop.until(APP, "shop", "its status reports the image", |app| {
        ready(app) == ("False", "ImageNotFound")
    });
    assert_eq!(text(&app, "/status/cause/message"), "image nginx:nope was not found");
    assert_eq!(holds(&app), ["Stalled"]);

    shop.delete(POD, "shop-1");
    shop.until(APP, "shop", "nothing is amiss any more", |app| {
        ready(app) == ("False", "Progressing")
    });
}

/// E1: no object can be created in a terminating namespace; this is reported without an Event, and not retried in a loop.
#[test]
fn terminating_namespace_is_reported() {
    let shop = namespace("ending");
    shop.settled_app("shop", web());
    // It never ends here: no controller empties it.
    shop.kubectl(&["delete", "namespace", "ending", "--wait=false"]);
    let mark = shop.mark();
    shop.delete(SERVICE, "shop");
    let app = shop.until(APP, "shop", "its status reports it", |app| {
        ready(app) == ("False", "NamespaceTerminating")
    });
    assert_eq!(holds(&app), ["Reconciling"]);
    std::thread::sleep(QUIET);
    let asked = shop.asked_since(mark);
    assert!(asked.count() <= 10, "{:?}", asked.tally());
}

/// G7: a status that another client has written is replaced.
#[test]
fn forged_status_is_replaced() {
    let shop = namespace("forged");
    let before = shop.settled_app("shop", web())["status"].clone();
    let forged = json!({"observedGeneration": 99, "url": "http://evil.example.com/", "readyReplicas": 7,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Forged", "message": "trust me",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    shop.patch_status(APP, "shop", forged);
    shop.until(APP, "shop", "the status is as before", |app| {
        let status = &app["status"];
        let same = |field: &str| status.get(field) == before.get(field);
        same("observedGeneration") && same("url") && same("readyReplicas") && ready(app) == ("False", "Progressing")
    });
}

/// H3: pods come and go in bursts; the last word counts, at most one a second is written.
#[test]
fn status_is_written_at_most_once_a_second() {
    let shop = namespace("flap");
    shop.settled_app("shop", web());
    let mark = shop.mark();
    let started = Instant::now();
    for ready in (0..40).map(|n| n % 3) {
        shop.patch_status(DEPLOYMENT, "shop", json!({"readyReplicas": ready, "replicas": 2}));
    }
    shop.patch_status(DEPLOYMENT, "shop", json!({"readyReplicas": 2, "replicas": 2}));
    shop.until(APP, "shop", "the last output is reported", |app| {
        app["status"]["readyReplicas"] == 2
    });
    std::thread::sleep(QUIET);
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
    assert_eq!(shop.get(APP, "shop")["status"]["readyReplicas"], 2);
    let asked = shop.asked_since(mark);
    assert!(asked.count() <= seconds + 2, "{:?} within {seconds} s", asked.tally());
}
