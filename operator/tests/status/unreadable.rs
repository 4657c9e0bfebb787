//! Applications that were stored before a rule that would refuse them.

use std::sync::Arc;

use kube::CustomResourceExt as _;
use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, INGRESS, QUIET, ready, text, web};
use crate::status::holds;

/// P2, G8. Objects that were stored under an older, looser schema. Remedies: `Reduced` on every watch,
/// without which one of them would stop the whole kind; `validate` before anything is made of a spec.
#[test]
fn unreadable_app_is_reported_and_does_not_delay_others() {
    let cluster = Arc::new(Cluster::without_crd(ControlPlane::builder()));
    cluster.apply_crd(APP, &loose_crd());
    let shop = cluster.namespace("mixed");
    shop.app("unreadable", json!({"image": "nginx", "env": "none"}));
    shop.app(
        "invalid",
        json!({"image": "a b", "port": 70000, "replicas": 1, "expose": "Public"}),
    );
    shop.app("good", web());
    cluster.install_crd();
    let _operator = cluster.operator(&[]);

    for name in ["good", "later"] {
        if name == "later" {
            shop.app(name, web());
        }
        shop.until_reported(name);
        shop.until_there(INGRESS, name);
    }
    let until_reported = |name: &str, reason: &str| {
        shop.until(APP, name, &format!("its status reports {reason}"), |app| {
            ready(app) == ("False", reason)
        })
    };
    let app = until_reported("unreadable", "Unreadable");
    assert_eq!(holds(&app), ["Stalled"]);
    assert!(
        text(&app, "/status/cause/message").contains("expected a sequence"),
        "{}",
        app["status"]
    );
    let app = until_reported("invalid", "InvalidSpec");
    let message = text(&app, "/status/cause/message");
    assert!(
        message.contains("spec.image: invalid image \"a b\"") && message.contains("invalid port 70000"),
        "{message}"
    );

    let mark = shop.mark();
    std::thread::sleep(QUIET);
    assert_eq!(
        shop.asked_since(mark).count(),
        0,
        "it is reported once, although it can't be read back"
    );

    // Once corrected, they are like any other.
    let patch = |spec: Value| Patch::Merge(json!({"spec": spec}));
    shop.patch(APP, "unreadable", patch(json!({"env": null})));
    shop.patch(APP, "invalid", patch(json!({"image": "nginx", "port": 80})));
    for name in ["unreadable", "invalid"] {
        shop.until_there(DEPLOYMENT, name);
        shop.until(APP, name, "nothing is amiss any more", |app| {
            ready(app) == ("False", "Progressing")
        });
    }
}

/// Returns a CRD that takes any spec.
fn loose_crd() -> String {
    let mut crd = serde_json::to_value(crd::AppDeploy::crd()).unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    schema.as_object_mut().unwrap().remove("x-kubernetes-validations");
    crd.to_string()
}
