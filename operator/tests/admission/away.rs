//! D1 and D2: no webhook answers. Existing objects keep working and can be deleted, and only new ones wait.

use std::sync::Arc;

use kube::api::{DeleteParams, Patch};
use serde_json::json;
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, Namespace, PODSET, SERVICE, Webhooks, web};

fn refused(space: &Namespace) {
    let error = space
        .try_create(APP, json!({"metadata": {"name": "new"}, "spec": web()}))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("failed calling webhook \"validate.appdeploy.dev\""),
        "{error}"
    );
}

#[test]
fn without_webhooks_new_objects_are_rejected_and_existing_ones_are_reconciled() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    let space = cluster.namespace("kept");
    let operator = webhooks.operator(&cluster, &[]);
    space.settled_app("shop", web());
    operator.terminate();
    // One that reconciles, and does not answer.
    let silent = cluster.operator(&[]);
    refused(&space);
    let before = space.get(DEPLOYMENT, "shop");
    space.delete(DEPLOYMENT, "shop");
    space.until_back(DEPLOYMENT, &before);
    space.pods_become_ready("shop");
    space.until(APP, "shop", "its status is written", |app| {
        app.pointer("/status/readyReplicas") == Some(&json!(1))
    });
    // Neither is the scale asked about, nor what is not of the spec.
    space.kubectl(&["label", "appdeploy", "shop", "team=blue"]);
    space.kubectl(&["scale", "appdeploy", "shop", "--replicas=3"]);
    space.until(DEPLOYMENT, "shop", "it is scaled", |deployment| {
        deployment["spec"]["replicas"] == 3
    });
    drop(silent);
    let _operator = webhooks.operator(&cluster, &[]);
    space.app("new", web());
    space.until_there(SERVICE, "new");
}

#[test]
fn apps_and_namespaces_can_be_deleted_without_a_running_operator() {
    let controllers = ["garbage-collector-controller", "namespace-controller"];
    let cluster = Arc::new(Cluster::start(ControlPlane::builder().controller_manager(&controllers)));
    let webhooks = Webhooks::install(&cluster);
    let [one, all] = ["of-one", "of-all"].map(|name| cluster.namespace(name));
    let operator = webhooks.operator(&cluster, &[]);
    for space in [&one, &all] {
        for name in ["background", "foreground", "orphan", "guarded"] {
            space.settled_app(name, json!({"image": "nginx:1"}));
        }
        space.podset_of("set", json!({"replicas": 1}), &["set-0"]);
        let guard = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/guard"]}}));
        space.patch(APP, "guarded", guard);
    }
    operator.terminate();
    refused(&one);
    one.delete_with(APP, "background", &DeleteParams::background());
    one.delete_with(APP, "foreground", &DeleteParams::foreground());
    one.delete_with(APP, "orphan", &DeleteParams::orphan());
    one.delete(APP, "guarded");
    one.delete(PODSET, "set");
    for name in ["background", "foreground", "orphan"] {
        one.until_gone(APP, name);
    }
    one.until_gone(PODSET, "set");
    // Who guards an object lets it go by an update.
    for space in [&one, &all] {
        let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        if space.name == all.name {
            cluster
                .control_plane
                .kubectl(&["delete", "namespace", &all.name, "--wait=false"])
                .unwrap();
            space.until(APP, "guarded", "it is to go", |app| {
                app.pointer("/metadata/deletionTimestamp").is_some()
            });
        }
        space.patch(APP, "guarded", release);
        space.until_gone(APP, "guarded");
    }
    crate::harness::eventually("the namespace is deleted", || {
        let asked = ["get", "namespace", &all.name, "--ignore-not-found", "-o", "name"];
        cluster.control_plane.kubectl(&asked).unwrap().is_empty()
    });

    // Nothing is left behind when a webhook answers again.
    let _operator = webhooks.operator(&cluster, &[]);
    assert!(one.list(APP).is_empty());
    crate::harness::eventually("only the one is left that was meant to stay", || {
        one.list(DEPLOYMENT).len() == 1
    });
    one.app("new", web());
    one.until_there(SERVICE, "new");
}
