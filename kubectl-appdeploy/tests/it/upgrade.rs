//! Another version over the one that is installed.

use serde_json::{Value, json};
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::Plugin;

const INSTALL: &str = "install --wait=false --webhooks=false";

fn installed() -> (PooledControlPlane, Plugin) {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run(INSTALL).ok();
    (cluster, plugin)
}

#[test]
fn upgrade_removes_old_objects_and_keeps_additions() {
    let (cluster, plugin) = installed();
    let object = |api: &str, kind: &str, name: &str, labels: Value, rest: Value| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels}});
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = json!("appdeploy-system");
        }
        object
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        cluster.apply(&object.to_string()).unwrap();
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let of_people = json!({"app.kubernetes.io/part-of": "appdeploy", "app.kubernetes.io/name": "appdeploy-operator"});
    let mut of_ours = of_people.clone();
    of_ours["appdeploy.dev/inventory"] = json!("installation");
    let mut of_others = of_ours.clone();
    of_others["app.kubernetes.io/part-of"] = json!("other");
    let policy = json!({"spec": {"podSelector": {}}});
    let service = json!({"spec": {"ports": [{"port": 80}]}});
    for (labels, name) in [(&of_ours, "old"), (&of_people, "added"), (&of_others, "foreign")] {
        object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            labels.clone(),
            policy.clone(),
        );
        object("v1", "Service", name, labels.clone(), service.clone());
        object(rbac, "ClusterRole", name, labels.clone(), json!({"rules": []}));
    }
    let removed = [
        "clusterrole.rbac.authorization.k8s.io/old deleted",
        "networkpolicy.networking.k8s.io/old deleted",
        "service/old deleted",
    ];
    let deleted = |output: &str| -> Vec<String> {
        let lines = output.lines().filter(|line| line.contains(" deleted"));
        lines
            .map(|line| line.trim_end_matches(" (server dry run)").to_owned())
            .collect()
    };
    let tried = plugin.run(&format!("{INSTALL} --dry-run=server")).ok();
    assert_eq!(deleted(&tried), removed);
    assert_eq!(deleted(&plugin.run(INSTALL).ok()), removed);
    assert_eq!(deleted(&plugin.run(INSTALL).ok()), [""; 0]);
    for name in ["added", "foreign"] {
        for kind in ["networkpolicy", "service", "clusterrole"] {
            cluster.kubectl(&["-n", "appdeploy-system", "get", kind, name]).unwrap();
        }
    }
}

/// The first version had no inventory, and its rights must not outlive it.
#[test]
fn rights_of_an_older_version_are_removed() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    cluster.kubectl(&["create", "namespace", "shop"]).unwrap();
    plugin.run(INSTALL).ok();
    let kinds = "clusterroles,clusterrolebindings,roles,rolebindings";
    let labels = "-l=app.kubernetes.io/part-of=appdeploy";
    cluster
        .kubectl(&["label", kinds, labels, "-A", "appdeploy.dev/inventory-"])
        .unwrap();
    let moved = plugin.run("install --wait=false --watch-namespace=shop").ok();
    for kind in ["clusterrole", "clusterrolebinding"] {
        let line = format!("{kind}.rbac.authorization.k8s.io/appdeploy-operator deleted");
        assert!(moved.contains(&line), "{moved}");
    }
    let left = cluster
        .kubectl(&["get", "clusterrole,clusterrolebinding", labels, "-o", "name"])
        .unwrap();
    assert!(!left.contains("appdeploy-operator"), "{left}");
}

#[test]
fn downgrade_that_would_lose_fields_is_rejected() {
    let (cluster, plugin) = installed();
    // A version that has a field more, and one that has one more in a list.
    let name = "appdeploys.appdeploy.dev";
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let patch = json!([
        {"op": "add", "path": format!("{at}/fancy"), "value": {"type": "string"}},
        {"op": "add", "path": format!("{at}/env/items/properties/mood"), "value": {"type": "string"}},
        {"op": "add", "path": "/metadata/annotations/appdeploy.dev~1schema-revision", "value": "4000"},
    ]);
    let newer = || {
        cluster
            .kubectl(&["patch", "crd", name, "--type=json", "-p", &patch.to_string()])
            .unwrap();
    };
    let knows = || {
        cluster
            .kubectl(&["get", "crd", name, "-o", "json"])
            .unwrap()
            .contains("\"mood\"")
    };
    newer();
    // No object uses them: nothing is lost.
    plugin.run("create plain --image=nginx").ok();
    plugin.run(&format!("{INSTALL} --force-conflicts")).ok();
    assert!(!knows(), "it is the older one now");

    newer();
    let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"image": "nginx", "fancy": "yes", "env": [{"name": "A", "value": "b"}, {"name": "B", "mood": "good"}]}});
    let stored = || {
        cluster.kubectl(&[
            "get",
            "appdeploy",
            "shop",
            "-o",
            "jsonpath={.spec.fancy} {.spec.env[1].mood}",
        ])
    };
    let started = std::time::Instant::now();
    while cluster.apply(&app.to_string()).is_err() || stored().unwrap() != "yes good" {
        assert!(started.elapsed().as_secs() < 60, "the schema is not in force");
    }
    for mode in ["", " --dry-run=server"] {
        let refused = plugin.run(&format!("{INSTALL} --force-conflicts{mode}")).fails(1);
        assert!(
            refused.contains("would lose what a newer version has stored: nothing was changed\n  why:  they use fields that this version does not have: "),
            "{refused}"
        );
        for field in ["spec.fancy", "spec.env.*.mood"] {
            let use_of = format!("{field} of appdeploy.appdeploy.dev/shop in default");
            assert!(refused.contains(&use_of), "{refused}");
        }
    }
    assert!(knows() && stored().unwrap() == "yes good");
}
