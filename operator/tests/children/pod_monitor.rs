//! The PodMonitor of an app with metrics, in clusters with its API and without.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, Namespace, POD_MONITOR, PODSET, SERVICE, condition, ready, text, uid, web,
};

fn with_metrics(metrics: Value) -> Value {
    let mut spec = web();
    spec["metrics"] = metrics;
    spec
}

/// Returns the annotations for Prometheus.
fn scraped(service: &Value) -> [&str; 3] {
    ["scrape", "port", "path"].map(|key| {
        let annotation = service["metadata"]["annotations"][format!("prometheus.io/{key}")].as_str();
        annotation.unwrap_or_default()
    })
}

fn costs(shop: &Namespace, since: testcluster::audit::Mark) -> BTreeMap<String, usize> {
    shop.asked_since(since).tally()
}

#[test]
fn api_that_appears_and_disappears_moves_the_metrics_and_restarts_no_pod() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()).with_operator(&[]));
    let shop = cluster.namespace("shop");
    shop.settled_app("plain", web());
    let app = shop.settled_app("shop", with_metrics(json!({"port": 9100, "path": "/prom"})));
    let service = shop.until_there(SERVICE, "shop");
    assert_eq!(scraped(&service), ["true", "9100", "/prom"]);
    assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 1);
    let deployment = shop.until_there(DEPLOYMENT, "shop");
    let ports = deployment.pointer("/spec/template/spec/containers/0/ports").unwrap();
    assert_eq!(
        (&ports[1]["name"], &ports[1]["containerPort"]),
        (&json!("metrics"), &json!(9100))
    );
    shop.settle();
    let version = |kind, name| shop.get(kind, name)["metadata"]["resourceVersion"].clone();
    let of_plain = version(SERVICE, "plain");

    // The API appears.
    let requested = cluster.control_plane.audit().all().unwrap().on("podmonitors");
    assert_eq!(requested.count(), 1, "its definition is watched instead");
    let mark = shop.mark();
    cluster.install_pod_monitors();
    let monitor = shop.until_there(POD_MONITOR, "shop");
    assert_eq!(text(&monitor, "/metadata/ownerReferences/0/uid"), uid(&app));
    assert_eq!(
        monitor["spec"],
        json!({"selector": {"matchLabels": {"appdeploy.dev/app": "shop"}},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/prom"}]})
    );
    shop.until(SERVICE, "shop", "it has no annotations", |service| {
        scraped(service) == ["", "", ""]
    });
    shop.settle();
    let asked = costs(&shop, mark);
    let writes: Vec<&str> = asked
        .keys()
        .map(String::as_str)
        .filter(|what| !what.starts_with("list"))
        .collect();
    assert_eq!(writes, ["create podmonitors", "patch services"]);
    // A steady app costs nothing. Drift is repaired.
    let mark = shop.mark();
    shop.patch(APP, "shop", Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})));
    shop.settle();
    assert_eq!(costs(&shop, mark), BTreeMap::new());
    let drift = json!({"spec": {"podMetricsEndpoints": [{"port": "http"}]}});
    shop.patch(POD_MONITOR, "shop", Patch::Merge(drift));
    shop.until(POD_MONITOR, "shop", "it is repaired", |monitor| {
        monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"
    });

    // The API disappears.
    cluster.remove_pod_monitors();
    shop.until(SERVICE, "shop", "it has annotations again", |service| {
        scraped(service) == ["true", "9100", "/prom"]
    });
    shop.until(APP, "shop", "it is as before", |app| {
        condition(app, "Ready").is_some_and(|ready| ready["reason"] == "Progressing")
    });
    // It appears again.
    cluster.install_pod_monitors();
    shop.until_there(POD_MONITOR, "shop");
    shop.until(SERVICE, "shop", "it has no annotations again", |service| {
        scraped(service) == ["", "", ""]
    });
    let template = |deployment: &Value| deployment["spec"]["template"].clone();
    assert_eq!(template(&shop.get(DEPLOYMENT, "shop")), template(&deployment));
    assert_eq!(
        shop.get(DEPLOYMENT, "shop")["metadata"]["generation"],
        deployment["metadata"]["generation"]
    );
    assert_eq!(version(SERVICE, "plain"), of_plain);
}

#[test]
fn pod_monitor_follows_the_spec_in_a_cluster_with_its_api() {
    let cluster = Cluster::start(ControlPlane::builder());
    cluster.install_pod_monitors();
    let cluster = Arc::new(cluster.with_operator(&[]));
    let shop = cluster.namespace("shop");
    let mark = shop.mark();
    shop.settled_app("shop", with_metrics(json!({})));
    let monitor = shop.until_there(POD_MONITOR, "shop");
    assert_eq!(
        monitor["spec"]["podMetricsEndpoints"],
        json!([{"port": "http", "path": "/metrics"}])
    );
    assert_eq!(scraped(&shop.get(SERVICE, "shop")), ["", "", ""]);
    shop.settle();
    let creation = ["deployments", "ingresses", "podmonitors", "services"].map(|kind| (format!("create {kind}"), 1));
    let mut creation = BTreeMap::from(creation);
    creation.insert("patch appdeploys/status".to_owned(), 1);
    assert_eq!(costs(&shop, mark), creation, "one write more than without");

    shop.set("shop", json!({"metrics": {"port": 9100}}));
    let changed = shop.until(POD_MONITOR, "shop", "it has the new port", |monitor| {
        monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"
    });
    shop.settle();
    shop.delete(POD_MONITOR, "shop");
    shop.until_back(POD_MONITOR, &changed);
    shop.set("shop", json!({"metrics": null}));
    shop.until_gone(POD_MONITOR, "shop");

    // A third-party PodMonitor is not changed, and the app serves without.
    shop.create(
        POD_MONITOR,
        json!({"metadata": {"name": "shop"}, "spec": {"selector": {}, "podMetricsEndpoints": []}}),
    );
    let before = shop.bytes(POD_MONITOR, "shop");
    shop.set("shop", json!({"metrics": {}, "image": "nginx:2"}));
    let app = shop.until(APP, "shop", "the conflict is reported", |app| {
        ready(app) == ("False", "NameConflict")
    });
    let message = text(condition(&app, "Ready").unwrap(), "/message");
    assert!(message.starts_with("PodMonitor shop exists"), "{message}");
    shop.until(DEPLOYMENT, "shop", "it is written", |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    });
    assert_eq!(shop.bytes(POD_MONITOR, "shop"), before);
    let refused = shop.try_create(
        PODSET,
        json!({"metadata": {"name": "set"}, "spec": {"template": {"image": "nginx", "port": 80, "metrics": {}}}}),
    );
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("remove spec.template.metrics"), "{refused}");
}
