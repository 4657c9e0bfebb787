//! Revisions, and the way back, with Kubernetes' own Deployment controller.

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::plugin::Plugin;

/// Makes the Deployment of an app as the operator would, and waits until it has so many revisions.
fn deploy(cluster: &ControlPlane, spec: &Value, revisions: usize) {
    let container = json!({"name": "app", "image": spec["image"]});
    let labels = json!({"appdeploy.dev/app": "shop"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop", "annotations": {"appdeploy.dev/revision-spec": spec.to_string()}},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    cluster.apply(&deployment.to_string()).unwrap();
    let wait = [
        "wait",
        "deployment/shop",
        &format!("--for=jsonpath={{.metadata.annotations.deployment\\.kubernetes\\.io/revision}}={revisions}"),
        "--timeout=30s",
    ];
    cluster.kubectl(&wait).unwrap();
}

#[test]
fn undo_restores_the_previous_revision() {
    let cluster = ControlPlane::builder()
        .controller_manager(&["deployment", "replicaset"])
        .start()
        .unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run("install --wait=false --webhooks=false").ok();
    plugin.run("create shop --image=nginx:1 --port=80 --replicas=3").ok();
    assert_eq!(
        plugin.run("history shop").err,
        "appdeploy.appdeploy.dev/shop has no revisions yet.\n"
    );
    let specs = [
        json!({"image": "nginx:1", "port": 80}),
        json!({"image": "nginx:2", "port": 80, "env": [{"name": "A", "value": "b"}]}),
        json!({"image": "nginx:3", "port": 80}),
    ];
    for (index, spec) in specs.iter().enumerate() {
        deploy(&cluster, spec, index + 1);
    }
    plugin.run("set image shop=nginx:3").ok();

    let shown = plugin.run("history shop").ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "REVISION   PODS   STATUS      IMAGE     CHANGE         AGE");
    assert!(
        lines[1].starts_with("1          0/0    <unknown>   nginx:1   -              "),
        "{shown}"
    );
    assert!(lines[2].starts_with("2          0/"), "{shown}");
    assert!(lines[2].contains("nginx:2   image, env A   "), "{shown}");
    assert_eq!(plugin.run("history shop -o name").ok(), "1\n2\n3\n");
    let json: Value = serde_json::from_str(&plugin.run("history shop -o json").ok()).unwrap();
    assert_eq!(json["revisions"][1]["template"], specs[1]);

    // A dry run changes nothing; the one before the last is what is meant.
    let dry: Value = serde_json::from_str(&plugin.run("undo shop --dry-run=server -o json").ok()).unwrap();
    assert_eq!(
        (&dry["spec"]["image"], &dry["spec"]["replicas"]),
        (&json!("nginx:2"), &json!(3))
    );
    let undone = plugin.run("undo shop");
    assert_eq!(
        (undone.out.as_str(), undone.err.as_str()),
        (
            "appdeploy.appdeploy.dev/shop rolled back\n",
            "revision 2: image nginx:2\nnext: kubectl appdeploy status shop\n"
        )
    );
    // No operator runs here: the pods run the third, the spec says the second, and undo goes back to the third.
    let dry: Value = serde_json::from_str(&plugin.run("undo shop --dry-run=server -o json").ok()).unwrap();
    assert_eq!(dry["spec"]["image"], "nginx:3");
    plugin.run("pause shop").ok();
    assert_eq!(
        plugin.run("undo shop").fails(1),
        "error: appdeploy.appdeploy.dev/shop is paused: nothing was changed\n  next: kubectl appdeploy resume shop\n"
    );
    plugin.run("resume shop").ok();
    let env = ["get", "appdeploy/shop", "-o", "jsonpath={.spec.env[0].value}"];
    assert_eq!(cluster.kubectl(&env).unwrap(), "b");
    plugin.run("undo shop --to-revision=1").ok();
    assert_eq!(cluster.kubectl(&env).unwrap(), "");
    assert_eq!(
        plugin.run("undo shop --to-revision=1").ok(),
        "appdeploy.appdeploy.dev/shop unchanged\n"
    );
    let said = plugin.run("undo shop --to-revision=9").fails(1);
    assert_eq!(
        said,
        "error: appdeploy.appdeploy.dev/shop has no revision 9: nothing was changed\n  next: kubectl appdeploy history shop\n"
    );
    assert!(
        plugin
            .run("podset history workers")
            .fails(2)
            .contains("a pod set has no history")
    );
}
