//! D7: objects that were stored before there were webhooks. The reconcile checks them again, and other changes of them are not denied.

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, INGRESS, Webhooks, ready, text, web};

#[test]
fn invalid_object_that_was_stored_before_is_reported_and_can_be_changed() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let [old, new] = ["old", "new"].map(|name| cluster.namespace(name));
    let on = |host: &str| {
        let mut spec = web();
        spec["host"] = json!(host);
        spec
    };
    old.app("shop", on("shop.example.com"));
    // Times have whole seconds, and UIDs decide within one.
    let created = |app: &Value| text(app, "/metadata/creationTimestamp").to_owned();
    let first = created(&old.get(APP, "shop"));
    crate::harness::eventually("a second has passed", || {
        let rival = new.app("shop", on("shop.example.com"));
        let is_later = created(&rival) > first;
        if !is_later {
            new.delete(APP, "shop");
            new.until_gone(APP, "shop");
        }
        is_later
    });
    let webhooks = Webhooks::install(&cluster);
    let _operator = webhooks.operator(&cluster, &[]);
    new.until(APP, "shop", "its status reports it", |app| {
        ready(app) == ("False", "HostConflict")
    });
    // Its labels, its image and its size can be changed.
    new.kubectl(&["label", "appdeploy", "shop", "team=blue"]);
    new.set("shop", json!({"image": "nginx:1.28", "replicas": 2}));
    // A host of another app is, although this app is the older one.
    old.app("blog", on("blog.example.com"));
    old.until_reported("blog");
    let moved = json!([{"op": "replace", "path": "/spec/host", "value": "blog.example.com"}]);
    let patch = ["patch", "appdeploy", "shop", "-n", "new", "--type=json", "-p"];
    let refused = cluster
        .control_plane
        .kubectl(&[&patch[..], &[&moved.to_string()]].concat())
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("blog.example.com is used by an AppDeploy of another namespace"),
        "{refused}"
    );
    new.set("shop", json!({"host": "new.example.com"}));
    new.until_there(INGRESS, "shop");
}
