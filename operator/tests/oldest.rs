//! The oldest Kubernetes that AppDeploy supports. It does not know all fields of pods, or stores them only with a feature gate.
//!
//! A create succeeds there, without the fields, and an apply is rejected because of a field that is not known.

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, INGRESS, Namespace, POD, SERVICE, Shared, condition, text, uid, web};

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
