//! Whether an ingress controller serves the Ingress.

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, CLASS, Cluster, INGRESS, condition, ready, text, web};
use crate::status::{holds, is_ready, namespace};

#[test]
fn app_with_an_ingress_class_waits_for_its_address() {
    let shop = namespace("class");
    let mut spec = web();
    spec["ingressClassName"] = json!("lane");
    let exposed = |app: &Value| text(condition(app, "Exposed").unwrap(), "/reason").to_owned();
    shop.settled_app("shop", spec);
    shop.pods_become_ready("shop");
    // The class is named in the spec, and no controller serves it.
    let no_class = |app: &Value| ready(app) == ("False", "NoIngressClass");
    let app = shop.until(APP, "shop", "it is reported that the class does not exist", no_class);
    assert_eq!(
        (holds(&app), exposed(&app)),
        (vec!["Stalled"], "NoIngressClass".to_owned())
    );

    shop.create(
        CLASS,
        json!({"metadata": {"name": "lane"}, "spec": {"controller": "example.com/lane"}}),
    );
    let pending = |app: &Value| ready(app) == ("False", "AddressPending");
    let app = shop.until(APP, "shop", "it waits for an address", pending);
    assert_eq!(
        (holds(&app), exposed(&app)),
        (vec!["Reconciling"], "AddressPending".to_owned())
    );

    shop.patch_status(
        INGRESS,
        "shop",
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
    );
    let app = shop.until(APP, "shop", "it is ready", is_ready);
    assert_eq!(
        (holds(&app), text(&app, "/status/addresses/0/value")),
        (vec!["Exposed", "Ready"], "192.0.2.1")
    );
}

/// In a cluster of its own, because a default class concerns every application.
#[test]
fn default_class_applies_to_apps_without_a_class() {
    let shop = Arc::new(Cluster::start(ControlPlane::builder()).with_operator(&[])).namespace("default-class");
    for name in ["shop", "blog"] {
        shop.settled_app(name, web());
        shop.pods_become_ready(name);
        shop.until(APP, name, "it is ready", is_ready);
    }
    let default = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    shop.create(
        CLASS,
        json!({"metadata": {"name": "lane", "annotations": default}, "spec": {"controller": "example.com/lane"}}),
    );
    let before = shop.get(INGRESS, "blog");
    for name in ["shop", "blog"] {
        // Kubernetes sets the class of new objects, not of existing ones.
        let app = shop.until(APP, name, "its Ingress has no class", |app| {
            ready(app) == ("False", "NoIngressClass")
        });
        assert_eq!(
            text(&app, "/status/cause/next"),
            format!("kubectl delete ingress {name} -n default-class")
        );
    }
    shop.delete(INGRESS, "blog");
    shop.until_back(INGRESS, &before);
    shop.until(APP, "blog", "it waits for an address", |app| {
        ready(app) == ("False", "AddressPending")
    });
    // A controller may serve also what has no class.
    for name in ["shop", "blog"] {
        shop.patch_status(
            INGRESS,
            name,
            json!({"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}),
        );
        let app = shop.until(APP, name, "it is ready", is_ready);
        let addresses = json!([{"type": "Hostname", "value": "lb.example.com"}]);
        assert_eq!(app["status"]["addresses"], addresses);
    }
}
