//! Every way in which an uninstallation can get stuck, and that an installation works after each.

use serde_json::json;
use testcluster::ControlPlane;

use crate::plugin::Plugin;

const INSTALL: &str = "install --wait=false --webhooks=false";
const GUARD: &str = r#"{"metadata":{"finalizers":["example.com/guard"]}}"#;
const NO_GUARD: &str = r#"{"metadata":{"finalizers":null}}"#;

/// Makes an app, and a Deployment that belongs to it: no operator runs here.
fn app(cluster: &ControlPlane, plugin: &Plugin, name: &str) {
    plugin.run(&format!("create {name} --image=nginx --port=80")).ok();
    let uid = cluster
        .kubectl(&["get", "appdeploy", name, "-o", "jsonpath={.metadata.uid}"])
        .unwrap();
    let owner = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true});
    let labels =
        json!({"app.kubernetes.io/managed-by": "appdeploy", "app.kubernetes.io/name": name, "appdeploy.dev/app": name});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}});
    cluster.apply(&deployment.to_string()).unwrap();
}

fn names(cluster: &ControlPlane, what: &str) -> String {
    cluster.kubectl(&["get", what, "-o", "name"]).unwrap()
}

fn system(cluster: &ControlPlane, arguments: &[&str]) {
    cluster
        .kubectl(&[&["-n", "appdeploy-system"], arguments].concat())
        .unwrap();
}

#[test]
fn blocked_uninstallation_can_be_continued_and_followed_by_an_installation() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    an_app_is_held(&cluster, &plugin);
    a_child_is_held(&cluster, &plugin);
    the_namespace_is_held(&cluster, &plugin);
    children_are_kept(&cluster, &plugin);
}

/// Removes only this finalizer: that of a deletion in the foreground makes the garbage collector delete children before it.
fn remove_guard(cluster: &ControlPlane, kind: &str, name: &str) {
    let finalizers = ["get", kind, name, "-o", "jsonpath={.metadata.finalizers[*]}"];
    let finalizers = cluster.kubectl(&finalizers).unwrap();
    let others: Vec<&str> = finalizers
        .split_whitespace()
        .filter(|name| *name != "example.com/guard")
        .collect();
    let patch = serde_json::json!({"metadata": {"finalizers": others}}).to_string();
    cluster
        .kubectl(&["patch", kind, name, "--type=merge", "-p", &patch])
        .unwrap();
}

/// The operator is kept, because the deletion may wait for it.
fn an_app_is_held(cluster: &ControlPlane, plugin: &Plugin) {
    plugin.run(INSTALL).ok();
    app(cluster, plugin, "held");
    cluster
        .kubectl(&["patch", "appdeploy", "held", "--type=merge", "-p", GUARD])
        .unwrap();
    let stuck = plugin.run("uninstall --delete-apps --yes --timeout=3s").fails(4);
    assert!(
        stuck.contains("error: appdeploy.appdeploy.dev/held is not deleted after 3s\n  why:  the finalizer example.com/guard blocks it: ")
            && stuck.contains("next: solve this, then run the same command again"),
        "{stuck}"
    );
    system(cluster, &["get", "deployment", "appdeploy-operator"]);
    remove_guard(cluster, "appdeploy", "held");
    plugin.run("uninstall --delete-apps --yes --timeout=60s").ok();
    assert_eq!(names(cluster, "appdeploys") + &names(cluster, "deployments"), "");
}

/// The one that holds the rest is named.
fn a_child_is_held(cluster: &ControlPlane, plugin: &Plugin) {
    plugin.run(INSTALL).ok();
    app(cluster, plugin, "parent");
    cluster
        .kubectl(&["patch", "deployment", "parent", "--type=merge", "-p", GUARD])
        .unwrap();
    let stuck = plugin.run("uninstall --delete-apps --yes --timeout=3s").fails(4);
    assert!(
        stuck.contains("  why:  deployment/parent exists, blocked by the finalizer example.com/guard\n"),
        "{stuck}"
    );
    remove_guard(cluster, "deployment", "parent");
    plugin.run("uninstall --delete-apps --yes --timeout=60s").ok();
    assert_eq!(names(cluster, "appdeploys") + &names(cluster, "deployments"), "");
}

/// An object in the operator's namespace is blocked, and then the namespace itself; the operator was deleted already.
fn the_namespace_is_held(cluster: &ControlPlane, plugin: &Plugin) {
    plugin.run(INSTALL).ok();
    system(cluster, &["delete", "deployment", "appdeploy-operator"]);
    system(
        cluster,
        &[
            "patch",
            "serviceaccount",
            "appdeploy-operator",
            "--type=merge",
            "-p",
            GUARD,
        ],
    );
    let stuck = plugin.run("uninstall --timeout=3s").fails(4);
    assert!(
        stuck.contains(
            "error: serviceaccount/appdeploy-operator is not deleted after 3s\n  why:  held by: example.com/guard\n"
        ),
        "{stuck}"
    );
    cluster
        .kubectl(&["delete", "namespace", "appdeploy-system", "--wait=false"])
        .unwrap();
    let waits = plugin.run("install --wait=false --timeout=3s").fails(4);
    assert!(
        waits.contains("namespace/appdeploy-system is still being deleted after 3s"),
        "{waits}"
    );
    let before = plugin.run("check --pre -o short").out;
    assert!(
        before.contains("error AD0203: namespace/appdeploy-system is being deleted"),
        "{before}"
    );
    system(
        cluster,
        &[
            "patch",
            "serviceaccount",
            "appdeploy-operator",
            "--type=merge",
            "-p",
            NO_GUARD,
        ],
    );
    plugin.run("uninstall --timeout=60s").ok();
    plugin.run("install --wait=false --timeout=60s").ok();
    plugin.run("uninstall --timeout=60s").ok();
}

/// Apps are deleted, and their children stay without an owner, so that the garbage collector keeps them.
fn children_are_kept(cluster: &ControlPlane, plugin: &Plugin) {
    plugin.run(INSTALL).ok();
    app(cluster, plugin, "orphan");
    let alone = plugin.run("uninstall --orphan-children").fails(2);
    assert!(
        alone.contains("--orphan-children needs --delete-apps or --delete-crds: no app is deleted"),
        "{alone}"
    );
    let unasked = plugin.run("uninstall --delete-apps --orphan-children").fails(2);
    assert!(
        unasked.contains("this deletes 1 app and keeps their children, without an owner: nothing was removed")
            && unasked.contains("kubectl appdeploy uninstall --delete-apps --orphan-children --yes"),
        "{unasked}"
    );
    plugin
        .run("uninstall --delete-apps --orphan-children --delete-crds --yes --timeout=60s")
        .ok();
    let owners = cluster
        .kubectl(&[
            "get",
            "deployment",
            "orphan",
            "-o",
            "jsonpath={.metadata.ownerReferences}",
        ])
        .unwrap();
    assert_eq!(owners, "");
    plugin.run(INSTALL).ok();
    plugin.run("uninstall --delete-crds --yes --timeout=60s").ok();
    assert!(names(cluster, "deployments").contains("deployment.apps/orphan"));
}
