//! The oldest Kubernetes that AppDeploy supports. It does not know all fields of pods, or stores them only with a feature gate.
//!
//! A create succeeds there, without the fields, and an apply is rejected because of a field that is not known.

use std::collections::BTreeMap;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, Namespace, POD, SERVICE, Shared, condition, count_of, text, uid, web,
};

/// The fields of pods that Kubernetes 1.30 does not store.
const DROPPED: [&str; 2] = ["hostUsers", "volumes[assets].image.reference"];

fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    let start = || {
        let builder = ControlPlane::builder().oldest();
        Cluster::start(builder).with_operator(&["--allow-unchecked-fields", "--watch-configmaps"])
    };
    SHARED.get(start).namespace(name)
}

/// Every field of pods that not all versions of Kubernetes have had.
fn every_field() -> Value {
    json!({"image": "nginx:1", "port": 80, "hostUsers": false, "preStopSleepSeconds": 5, "terminationGracePeriodSeconds": 60,
        "ports": [{"name": "grpc", "port": 9090, "appProtocol": "kubernetes.io/h2c"}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}],
        "envFrom": [{"prefix": "A_", "configMapRef": {"name": "a", "optional": true}}],
        "probes": {"readiness": {"httpGet": {"path": "/", "port": 80}}, "liveness": {"grpc": {"port": 9090}}},
        "serviceAccount": {"name": "shop"}, "automountServiceAccountToken": true, "onConfigChange": "Restart",
        "placement": {"nodeSelector": {"disktype": "ssd"}, "tolerations": [{"key": "gpu", "value": "a"}]},
        "initContainers": [{"name": "migrate", "image": "a", "mounts": [{"name": "assets", "mountPath": "/assets"}]}],
        "sidecars": [{"name": "proxy", "image": "a", "probes": {"startup": {"tcpSocket": {"port": 1}}}}],
        "volumes": [{"name": "config", "mountPath": "/config", "configMap": {"name": "shop", "optional": true}},
            {"name": "cache", "mountPath": "/cache", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "assets", "mountPath": "/assets", "image": {"reference": "assets:1"}}]})
}

/// Returns the message of the condition about dropped fields.
fn message(prefix: &str, of: &str) -> String {
    let paths = DROPPED.map(|path| format!("{prefix}{path}")).join(", ");
    format!(
        "the API server has not stored {paths} of {of}: it is too old, a feature gate is off, or a policy removes the field; \
         update the cluster, or remove the field from the spec"
    )
}

fn reported(object: &Value) -> &str {
    condition(object, "FieldsDropped").map_or("", |dropped| text(dropped, "/message"))
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.map(|(what, count)| (what.to_owned(), count)).into()
}

#[test]
#[ignore = "takes minutes: make test-long, make test-oldest"]
fn fields_of_an_app_that_are_not_stored_are_reported_and_its_changes_are_written() {
    let shop = namespace("app");
    let mark = shop.mark();
    shop.app("shop", every_field());
    let app = shop.until(APP, "shop", "the status reports it", |app| !reported(app).is_empty());
    assert_eq!(reported(&app), message("spec.template.spec.", "Deployment shop"));
    shop.settle();
    let created = [
        ("create deployments", 1),
        ("create events", 1),
        ("create ingresses", 1),
        ("create services", 1),
        ("patch appdeploys/status", 1),
    ];
    assert_eq!(shop.asked_since(mark).tally(), counts(created));

    // Whatever causes a reconcile writes nothing.
    let mark = shop.mark();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    shop.patch(APP, "shop", Patch::Merge(label.clone()));
    shop.patch(DEPLOYMENT, "shop", Patch::Merge(label));
    shop.settle();
    assert_eq!(shop.asked_since(mark).tally(), counts([]));

    // The first apply is rejected because of the volume, and is sent again without it.
    let mark = shop.mark();
    shop.set("shop", json!({"image": "nginx:2"}));
    shop.until(DEPLOYMENT, "shop", "it has the image", |shop| {
        text(shop, "/spec/template/spec/containers/0/image") == "nginx:2"
    });
    let app = shop.until_reported("shop");
    assert_eq!(text(&app, "/status/cause/reason"), "");
    shop.settle();
    let changed = [("patch appdeploys/status", 1), ("patch deployments", 2)];
    assert_eq!(shop.asked_since(mark).tally(), counts(changed));
    assert_eq!(shop.events_about("shop"), ["FieldsDropped"], "once");

    // Without the fields, nothing is dropped.
    shop.set(
        "shop",
        json!({"hostUsers": null, "volumes": null, "initContainers": null}),
    );
    shop.until(APP, "shop", "the condition is removed", |app| {
        condition(app, "FieldsDropped").is_none()
    });
    let pod = shop.get(DEPLOYMENT, "shop")["spec"]["template"]["spec"].clone();
    assert_eq!(pod.get("volumes"), None);
    assert_eq!(pod["initContainers"][0]["restartPolicy"], "Always", "a sidecar");
    assert_eq!(pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 5);
}

/// A dropped field of a pod can't be added later: the pod is not replaced because of it.
#[test]
#[ignore = "takes minutes: make test-long, make test-oldest"]
fn fields_of_pods_that_are_not_stored_are_reported_and_replace_no_pod() {
    let shop = namespace("pods");
    let mark = shop.mark();
    shop.podset_of(
        "web",
        json!({"replicas": 2, "template": every_field()}),
        &["web-0", "web-1"],
    );
    let set = shop.until_podset("web", "the status reports it", |set| !reported(set).is_empty());
    assert_eq!(reported(&set), message("spec.", "the pods"));
    shop.settle_podsets();
    let asked = shop.asked_since(mark).tally();
    let of = |what: &str| asked.get(what).copied().unwrap_or_default();
    assert_eq!(
        (of("create pods"), of("delete pods"), of("create events")),
        (2, 0, 1),
        "{asked:?}"
    );
    let pods = shop.pod_uids();

    let mark = shop.mark();
    shop.label_pod("web-0", "a", json!("b"));
    shop.settle_podsets();
    assert_eq!(shop.asked_since(mark).tally(), counts([]));

    // In place, which creates no pod: what is known stays.
    shop.set_podset("web", json!({"template": {"image": "nginx:2"}}));
    let set = shop.until_podset("web", "all run the image", |set| count_of(set, "updatedReplicas") == 2);
    assert_eq!(reported(&set), message("spec.", "the pods"));
    assert_eq!(shop.pod_uids(), pods);
    let reasons: Vec<String> = shop.events_about_podset("web").into_iter().map(|(r, _)| r).collect();
    assert_eq!(reasons, ["FieldsDropped"], "once");

    let plain = json!({"hostUsers": null, "volumes": null, "initContainers": null});
    shop.set_podset("web", json!({"template": plain}));
    shop.until_podset("web", "the condition is removed", |set| {
        condition(set, "FieldsDropped").is_none()
    });
}

#[test]
#[ignore = "takes minutes: make test-long, make test-oldest"]
fn objects_without_these_fields_live_as_on_the_newest_kubernetes() {
    let shop = namespace("plain");
    let mark = shop.mark();
    let mut spec = every_field();
    for field in ["hostUsers", "volumes", "initContainers"] {
        spec.as_object_mut().unwrap().remove(field);
    }
    shop.settled_app("every", spec.clone());
    shop.settled_app("shop", web());
    shop.podset_of("web", json!({"replicas": 1, "template": spec}), &["web-0"]);
    shop.pods_become_ready("shop");
    shop.set("shop", json!({"image": "nginx:2"}));
    shop.until(DEPLOYMENT, "shop", "it has the image", |shop| {
        text(shop, "/spec/template/spec/containers/0/image") == "nginx:2"
    });
    for kind in [DEPLOYMENT, SERVICE, INGRESS] {
        let before = shop.get(kind, "shop");
        shop.delete(kind, "shop");
        shop.until_back(kind, &before);
    }
    let before = uid(&shop.get(POD, "web-0")).to_owned();
    shop.delete(POD, "web-0");
    shop.until(POD, "web-0", "it is replaced", |pod| {
        !pod.is_null() && uid(pod) != before
    });
    shop.settle();
    for name in ["every", "shop"] {
        assert_eq!(condition(&shop.get(APP, name), "FieldsDropped"), None);
    }
    assert_eq!(shop.asked_since(mark).failed().count(), 0);
}
