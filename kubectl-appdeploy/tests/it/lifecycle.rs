//! Installing and uninstalling, again and again.

use serde_json::json;
use testcluster::ControlPlane;

use crate::plugin::Plugin;

#[test]
fn install_and_uninstall_can_be_repeated() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    assert!(
        plugin
            .run("status")
            .fails(1)
            .contains("the AppDeploy API is not installed in this cluster\n  next: kubectl appdeploy install")
    );
    assert!(
        plugin
            .run("uninstall")
            .err
            .contains("AppDeploy is not installed in this cluster")
    );

    for round in 0..2 {
        let installed = plugin.run("install --wait=false").ok();
        assert_eq!(
            installed.lines().filter(|line| line.ends_with(" created")).count(),
            if round == 0 { 26 } else { 21 },
            "{installed}"
        );
        let again = plugin.run("install --wait=false").ok();
        assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
        let served = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
        cluster.kubectl(&served).unwrap();
        // Nothing can run the pod here.
        let late = plugin.run("install --timeout=15s").fails(4);
        assert!(late.contains("the operator is not running after 15s"), "{late}");
        let create = format!("create app{round} --image=nginx --port=80");
        without_answer(&plugin, &create);
        plugin.run(&create).ok();
        if round == 0 {
            plugin.run("install --wait=false").ok();
        }
        // Apps and their definition stay.
        let gone = plugin.run("uninstall --timeout=60s");
        assert!(gone.err.contains("    default: app0"), "{}", gone.err);
        assert!(gone.ok().contains("namespace/appdeploy-system deleted"));
        assert_eq!(
            cluster
                .kubectl(&[
                    "get",
                    "namespace",
                    "appdeploy-system",
                    "--ignore-not-found",
                    "-o",
                    "name"
                ])
                .unwrap(),
            ""
        );
    }
    assert_eq!(
        plugin.run("status -o name").ok(),
        "appdeploy.appdeploy.dev/app0\nappdeploy.appdeploy.dev/app1\n"
    );

    // Losing apps and pod sets takes a word.
    plugin.run("install --wait=false --webhooks=false").ok();
    plugin.run("podset create workers").ok();
    let gone = plugin.run("uninstall --dry-run=client").ok();
    assert!(
        gone.contains(
            "  1 pod set  (their pods keep running, but failed pods are not replaced; --delete-apps deletes them):\n    default: workers\n"
        ),
        "{gone}"
    );
    for line in ["uninstall --delete-apps", "uninstall --delete-crds"] {
        let refused = plugin.run(line).fails(2);
        assert!(
            refused.contains("this deletes 2 apps and 1 pod set with all their children: nothing was removed"),
            "{refused}"
        );
    }
    let plan = plugin.run("uninstall --delete-crds --dry-run=client").ok();
    assert!(
        plan.starts_with("To be removed, in this order:\n  2 apps, with all their children:\n    default: app0, app1\n  1 pod set, with "),
        "{plan}"
    );
    let removed = plugin
        .run("uninstall --delete-apps --delete-crds --yes --timeout=60s")
        .ok();
    for line in [
        "appdeploy.appdeploy.dev/app0 deleted from default namespace",
        "podset.appdeploy.dev/workers deleted from default namespace",
        "customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev deleted",
    ] {
        assert!(removed.contains(line), "{removed}");
    }
    assert!(plugin.run("status").fails(1).contains("not installed"));
    let left = cluster
        .kubectl(&[
            "get",
            "crd,clusterrole,clusterrolebinding,namespace,validatingwebhookconfiguration,mutatingwebhookconfiguration,\
             validatingadmissionpolicy,validatingadmissionpolicybinding",
            "-l",
            "app.kubernetes.io/part-of=appdeploy",
            "-o",
            "name",
        ])
        .unwrap();
    assert_eq!(left, "");
}

/// Without an operator an app is rejected, until the webhooks are removed.
fn without_answer(plugin: &Plugin, create: &str) {
    let unanswered = plugin.run(create).fails(1);
    assert!(
        unanswered.starts_with("error: the operator did not answer the API server: nothing was changed\n  why:  ")
            && unanswered.contains("\n  next: kubectl -n appdeploy-system get pods"),
        "{unanswered}"
    );
    let unasked = plugin.run("install --wait=false --webhooks=false").ok();
    let gone = unasked.lines().filter(|line| line.ends_with(" deleted")).count();
    assert_eq!(gone, 7, "{unasked}");
}

/// Puts a third-party custom resource into the operator's namespace, which owns a volume claim.
fn database(cluster: &ControlPlane) {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "databases.db.example"}, "spec": {"group": "db.example", "scope": "Namespaced",
            "names": {"plural": "databases", "singular": "database", "kind": "Database"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    cluster.apply(&definition.to_string()).unwrap();
    cluster
        .kubectl(&[
            "wait",
            "crd/databases.db.example",
            "--for=condition=Established",
            "--timeout=60s",
        ])
        .unwrap();
    let database = json!({"apiVersion": "db.example/v1", "kind": "Database",
        "metadata": {"name": "orders", "namespace": "appdeploy-system"}});
    cluster.apply(&database.to_string()).unwrap();
    let uid = [
        "-n",
        "appdeploy-system",
        "get",
        "database/orders",
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    let uid = cluster.kubectl(&uid).unwrap();
    let owner =
        json!({"apiVersion": "db.example/v1", "kind": "Database", "name": "orders", "uid": uid, "controller": true});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "appdeploy-system", "ownerReferences": [owner]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.apply(&claim.to_string()).unwrap();
}

#[test]
fn third_party_objects_are_not_changed() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    cluster.kubectl(&["create", "namespace", "appdeploy-system"]).unwrap();
    let refused = plugin.run("install --wait=false").fails(1);
    assert!(
        refused.contains("namespace/appdeploy-system exists and is not part of AppDeploy: nothing was changed"),
        "{refused}"
    );
    assert_eq!(cluster.kubectl(&["get", "crd", "-o", "name"]).unwrap(), "");
    cluster
        .kubectl(&[
            "label",
            "namespace",
            "appdeploy-system",
            "app.kubernetes.io/part-of=appdeploy",
        ])
        .unwrap();
    plugin.run("install --wait=false").ok();

    cluster
        .kubectl(&["-n", "appdeploy-system", "create", "configmap", "notes"])
        .unwrap();
    let gone = plugin.run("uninstall --timeout=60s");
    assert!(
        gone.err
            .contains("namespace/appdeploy-system  (it also holds configmap/notes)"),
        "{}",
        gone.err
    );
    gone.ok();
    cluster
        .kubectl(&["-n", "appdeploy-system", "get", "configmap", "notes"])
        .unwrap();
    // A custom resource counts as well, with what it owns.
    cluster
        .kubectl(&["-n", "appdeploy-system", "delete", "configmap", "notes"])
        .unwrap();
    database(&cluster);
    let gone = plugin.run("uninstall --timeout=60s");
    assert!(
        gone.err.contains(
            "namespace/appdeploy-system  (it also holds persistentvolumeclaim/data, database.db.example/orders)"
        ),
        "{}",
        gone.err
    );
    gone.ok();
    cluster
        .kubectl(&["-n", "appdeploy-system", "get", "pvc/data", "database/orders"])
        .unwrap();
    plugin.run("install --wait=false").ok();

    // The change of another manager is not overwritten without a flag.
    cluster
        .kubectl(&[
            "-n",
            "appdeploy-system",
            "scale",
            "deployment",
            "appdeploy-operator",
            "--replicas=3",
        ])
        .unwrap();
    let conflict = plugin.run("install --wait=false").fails(1);
    assert!(
        conflict.contains("deployment.apps/appdeploy-operator: apply failed with 1 conflict\n  why:  .spec.replicas: "),
        "{conflict}"
    );
    plugin.run("install --wait=false --force-conflicts").ok();
}

#[test]
fn settings_reach_the_operator() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    for namespace in ["a", "b"] {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    plugin
        .run("install --wait=false --image=localhost:5000/op:v9.9.9 --watch-namespace=a,b --concurrency=8")
        .ok();
    let container = "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].args[*]}";
    let deployed = || {
        cluster
            .kubectl(&[
                "-n",
                "appdeploy-system",
                "get",
                "deployment",
                "appdeploy-operator",
                "-o",
                container,
            ])
            .unwrap()
    };
    assert_eq!(
        deployed(),
        "localhost:5000/op:v9.9.9 --watch-namespace=a,b --webhooks=false --concurrency=8"
    );
    let version = plugin.run("version");
    assert!(version.out.contains("Operator Version: v9.9.9\n"), "{}", version.out);
    assert!(
        version.err.starts_with("Warning: the operator is v9.9.9"),
        "{}",
        version.err
    );
    let older = plugin.run("install --wait=false");
    assert!(
        older.err.contains("Warning: the operator is v9.9.9, which is newer: v"),
        "{}",
        older.err
    );
    older.ok();
    assert_eq!(
        deployed(),
        format!("ghcr.io/appdeploy/appdeploy-operator:v{} ", env!("CARGO_PKG_VERSION"))
    );
    assert!(
        plugin
            .run("install -n other")
            .fails(2)
            .contains("leave out --namespace")
    );
}
