//! Creating, showing, scaling and deleting apps.

use serde_json::{Value, json};
use testcluster::PooledControlPlane;

use crate::plugin::{Plugin, conditions, status};

/// An API server with the API and no operator.
fn installed() -> (PooledControlPlane, Plugin) {
    Plugin::installed()
}

#[test]
fn app_is_created_once_and_printed() {
    let (cluster, plugin) = installed();
    let created = plugin.run("create shop --image=nginx --port=80 --replicas=2");
    assert_eq!(
        (created.out.as_str(), created.err.as_str()),
        (
            "appdeploy.appdeploy.dev/shop created\n",
            "next: kubectl appdeploy status shop\n"
        )
    );

    let before = cluster.kubectl(&["get", "appdeploy", "shop", "-o", "json"]).unwrap();
    let again = plugin.run("create shop --image=other").fails(1);
    assert!(again.starts_with("Error from server (AlreadyExists): appdeploys.appdeploy.dev \"shop\" already exists\n  why:  nothing was changed\n  next: "), "{again}");
    assert_eq!(
        cluster.kubectl(&["get", "appdeploy", "shop", "-o", "json"]).unwrap(),
        before
    );

    status(
        &cluster,
        "appdeploy/shop",
        &conditions("False", "Progressing", "0 of 2 pods are ready", Some("Reconciling")),
    );
    let shown = plugin.run("status").ok();
    let mut lines = shown.lines();
    assert_eq!(
        lines.next(),
        Some("NAME   READY   PODS   REASON        URL                   AGE")
    );
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("shop   False   0/2    Progressing   http://shop.default   "),
        "{shown}"
    );
    assert_eq!(lines.collect::<Vec<_>>(), ["", "shop: 0 of 2 pods are ready"]);

    assert_eq!(plugin.run("status -o name").ok(), "appdeploy.appdeploy.dev/shop\n");
    let json: Value = serde_json::from_str(&plugin.run("status shop -o json").ok()).unwrap();
    assert_eq!(
        (&json["spec"]["image"], &json["metadata"]["managedFields"]),
        (&json!("nginx"), &Value::Null)
    );
    let list: Value = serde_json::from_str(&plugin.run("status -A -o json").ok()).unwrap();
    assert_eq!(list["items"][0], json);

    // What is printed as YAML is what kubectl reads.
    let yaml = plugin
        .run("create odd --image=nginx --env=A=on --env=B=12:30 --env=C=0644 --dry-run=client -o yaml")
        .ok();
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    admin
        .run_with_input(&["create", "--validate=strict", "-f", "-"], &yaml)
        .unwrap();
    let values = cluster
        .kubectl(&["get", "appdeploy", "odd", "-o", "jsonpath={.spec.env[*].value}"])
        .unwrap();
    assert_eq!(values, "on 12:30 0644");
}

#[test]
fn invalid_app_is_rejected_before_any_request() {
    let (cluster, plugin) = installed();
    let before = cluster.audit().mark().unwrap();
    for (line, field) in [
        ("create shop --image=nginx --port=80 --host=http://x", "spec.host: "),
        ("create Shop --image=nginx", "metadata.name: "),
        ("create shop --image=nginx --port=0", "spec.port: "),
    ] {
        let said = plugin.run(line).fails(2);
        assert!(said.contains(&format!("  why:  {field}")), "{said}");
    }
    let sent = cluster
        .audit()
        .since(before)
        .unwrap()
        .by_user_agent_prefix("kubectl-appdeploy/");
    assert_eq!(sent.count(), 0, "{:?}", sent.tally());
    // Without a terminal there is no prompt.
    assert!(
        plugin
            .run("create")
            .fails(2)
            .contains("create needs a name and an image")
    );
}

#[test]
fn dry_runs_change_nothing() {
    let (_cluster, plugin) = installed();
    assert_eq!(
        plugin.run("create shop --image=nginx --dry-run=client").ok(),
        "appdeploy.appdeploy.dev/shop created (dry run)\n"
    );
    assert_eq!(
        plugin.run("create shop --image=nginx --dry-run=server").ok(),
        "appdeploy.appdeploy.dev/shop created (server dry run)\n"
    );
    // Variables from files and flags, and nothing of a file with a mistake in it.
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (first, second) = (
        file("first", "# mode\nMODE=live\nLEVEL=1\n"),
        file("second", "LEVEL=2\nLANG\n"),
    );
    let line = format!(
        "create shop --image=nginx --dry-run=server -o json --env-file={first} --env-file={second} -e MODE=test"
    );
    let written: Value = serde_json::from_str(&plugin.run(&line).ok()).unwrap();
    assert_eq!(
        written["spec"]["env"],
        json!([{"name": "MODE", "value": "test"}, {"name": "LEVEL", "value": "2"}, {"name": "LANG", "value": "C.UTF-8"}])
    );
    let wrong = file("wrong", "MODE=live\nBAD NAME=secret\n");
    let said = plugin
        .run(&format!("create shop --image=nginx --env-file={wrong}"))
        .fails(2);
    assert!(
        said.contains(&format!("  why:  {wrong}:2: invalid name")) && !said.contains("secret"),
        "{said}"
    );
    // As with kubectl: what is written down is for any namespace, unless one was asked for.
    for (flags, namespace) in [("", None), (" -n default", Some("default")), (" -n team", Some("team"))] {
        let line = format!("create shop --image=nginx --port=80 --dry-run=client -o json{flags}");
        let written: Value = serde_json::from_str(&plugin.run(&line).ok()).unwrap();
        assert_eq!(written["metadata"]["namespace"].as_str(), namespace, "{line}");
    }
    assert!(plugin.run("status -o name").ok().is_empty());
    plugin.run("create shop --image=nginx").ok();
    assert_eq!(
        plugin.run("scale shop --replicas=3 --dry-run=server").ok(),
        "appdeploy.appdeploy.dev/shop scaled (server dry run)\n"
    );
    assert_eq!(
        plugin.run("delete shop --dry-run=server").ok(),
        "appdeploy.appdeploy.dev/shop deleted (server dry run)\n"
    );
    assert_eq!(
        plugin.run("delete shop --dry-run=client").ok(),
        "appdeploy.appdeploy.dev/shop deleted (dry run)\n"
    );
    let json: Value = serde_json::from_str(&plugin.run("status shop -o json").ok()).unwrap();
    assert_eq!(
        (&json["spec"]["replicas"], &json["metadata"]["generation"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn apps_are_scaled_and_deleted_by_name_and_by_label() {
    let (_cluster, plugin) = installed();
    for line in [
        "create a --image=nginx -l team=x",
        "create b --image=nginx -l team=x",
        "create c --image=nginx",
    ] {
        plugin.run(line).ok();
    }
    assert_eq!(plugin.run("scale -l team=x --replicas=2").ok().lines().count(), 2);
    let said = plugin.run("scale a --replicas=5 --current-replicas=1").fails(1);
    assert!(said.contains("has 2 replicas, not 1: nothing was changed"), "{said}");

    // One that is missing does not stop the others.
    let run = plugin.run("delete c nope --cascade=background");
    assert_eq!((run.code, run.out.as_str()), (1, "appdeploy.appdeploy.dev/c deleted\n"));
    assert!(run.err.contains("\"nope\" not found"), "{}", run.err);
    plugin.run("delete nope --ignore-not-found").ok();
    assert!(plugin.run("delete").fails(2).contains("no app selected"));
    // What no name was given for is asked about.
    let said = plugin.run("delete --all").fails(2);
    assert_eq!(
        said,
        "error: this deletes 2 apps (a, b): nothing was deleted\n  next: kubectl appdeploy delete --all --yes\n        \
         (to confirm)\n"
    );
    let said = plugin.run("delete -l team=x").fails(2);
    assert!(
        said.contains("next: kubectl appdeploy delete -l team=x --yes\n"),
        "{said}"
    );
    plugin.run("delete -l team=x --dry-run=server").ok();
    assert_eq!(
        plugin
            .run("delete --all --yes --cascade=background")
            .ok()
            .lines()
            .count(),
        2
    );
    let empty = plugin.run("status");
    assert_eq!((empty.code, empty.out.as_str()), (0, ""));
    assert!(
        empty.err.starts_with("No apps found in default namespace."),
        "{}",
        empty.err
    );
}

#[test]
fn requests_carry_a_user_agent() {
    let (cluster, plugin) = installed();
    plugin.run("create shop --image=nginx").ok();
    plugin.run("scale shop --replicas=2").ok();
    let managers = cluster
        .kubectl(&[
            "get",
            "appdeploy",
            "shop",
            "--show-managed-fields",
            "-o",
            "jsonpath={.metadata.managedFields[*].manager}",
        ])
        .unwrap();
    assert_eq!(managers, "kubectl-appdeploy kubectl-appdeploy");
    let agent = format!("kubectl-appdeploy/{}", env!("CARGO_PKG_VERSION"));
    let writes = cluster
        .audit()
        .all()
        .unwrap()
        .by_user_agent_prefix(&agent)
        .on("appdeploys")
        .writes();
    assert_eq!(writes.count(), 2, "{:?}", writes.tally());
}

#[test]
fn number_of_requests_for_a_list_is_independent_of_the_number_of_apps() {
    let (cluster, plugin) = installed();
    let cost = |line: &str| {
        let mark = cluster.audit().mark().unwrap();
        plugin.run(line).ok();
        cluster
            .audit()
            .since(mark)
            .unwrap()
            .by_user_agent_prefix("kubectl-appdeploy/")
            .count()
    };
    for round in 0..3 {
        plugin.run(&format!("create app{round} --image=nginx --port=80")).ok();
        status(
            &cluster,
            &format!("appdeploy/app{round}"),
            &conditions("True", "Available", "", None),
        );
        assert_eq!([cost("status"), cost("status app0"), cost("describe app0")], [1, 8, 11]);
    }
}

#[test]
fn missing_log_has_a_reason() {
    let (cluster, plugin) = installed();
    plugin.run("create shop --image=nginx").ok();
    let none = plugin.run("logs shop").fails(1);
    assert_eq!(
        none,
        "error: shop has no pods, and so no log\n  why:  no operator has seen it yet\n  next: kubectl appdeploy status shop\n"
    );
    plugin.run("create idle --image=nginx --replicas=0").ok();
    let none = plugin.run("logs idle").fails(1);
    assert!(
        none.ends_with("  why:  it is scaled to zero\n  next: kubectl appdeploy scale idle --replicas=1\n"),
        "{none}"
    );
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop-1", "labels": {"appdeploy.dev/app": "shop"}},
        "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
    cluster.apply(&pod.to_string()).unwrap();
    let early = plugin.run("logs shop").fails(1);
    assert_eq!(
        early,
        "error: no logs\n  why:  shop-1: it has not been started: Pending\n  next: kubectl appdeploy status shop\n"
    );
    let again = plugin.run("logs shop --previous").fails(1);
    assert!(again.contains("shop-1: it has not been restarted"), "{again}");
    assert!(plugin.run("logs blog").fails(1).contains("\"blog\" not found"));
    // Of several, one that is missing does not stop the others.
    let several = plugin.run("logs shop idle blog").fails(1);
    assert!(
        several.contains("shop-1: it has not been started") && several.contains("\"blog\" not found"),
        "{several}"
    );
    let none = plugin.run("logs -l team=x");
    assert_eq!(
        (none.code, none.err.as_str()),
        (0, "No apps found in default namespace.\n")
    );
    let all = plugin.run("logs -A").fails(1);
    assert!(
        all.contains("why:  default/shop-1: ") && all.ends_with("next: kubectl appdeploy status -A\n"),
        "{all}"
    );
    assert!(plugin.run("logs").fails(2).starts_with("error: no app selected\n"));
    let wrong = plugin.run("logs shop --include=a(").fails(2);
    assert!(wrong.contains("unclosed group"), "{wrong}");
    plugin.run("logs shop --previous --follow").fails(2);
}
