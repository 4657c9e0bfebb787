//! The verbs that pod sets share with apps.

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::plugin::{Plugin, Run, conditions, status};

/// Creates a pod as the operator would, or one with another owner.
pub fn pod(cluster: &ControlPlane, name: &str, owner: Option<(&str, &str)>, replaces: Option<&str>) -> String {
    let owners: Vec<Value> = owner
        .iter()
        .map(|(kind, uid)| {
            json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": kind, "name": "workers", "uid": uid,
                "controller": true, "blockOwnerDeletion": true})
        })
        .collect();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
        "labels": {"appdeploy.dev/podset": "workers"}, "ownerReferences": owners,
        "annotations": replaces.map(|uid| json!({"appdeploy.dev/replaces": uid}))},
        "spec": {"containers": [{"name": "app", "image": "busybox"}]}});
    cluster.apply(&pod.to_string()).unwrap();
    uid(cluster, &format!("pod/{name}"))
}

/// Returns the UID of an object that is named like `pod/web-0`.
pub fn uid(cluster: &ControlPlane, object: &str) -> String {
    cluster
        .kubectl(&["get", object, "-o", "jsonpath={.metadata.uid}"])
        .unwrap()
}

#[test]
fn pod_set_is_created_with_or_without_a_template_and_printed() {
    let (cluster, plugin) = Plugin::installed();

    let created = plugin.run("podset create workers --replicas=3 -l team=x");
    assert_eq!(
        (created.out.as_str(), created.err.as_str()),
        (
            "podset.appdeploy.dev/workers created\n",
            "next: kubectl appdeploy podset status workers\n"
        )
    );
    let json: Value = serde_json::from_str(&plugin.run("podset status podset/workers -o json").ok()).unwrap();
    assert_eq!(json["spec"].get("template"), None, "its default is not stored");
    let again = plugin.run("podset create workers").fails(1);
    assert!(
        again.ends_with(
            "next: kubectl appdeploy podset status workers\n  next: kubectl appdeploy podset edit workers\n"
        ),
        "{again}"
    );
    // The server's limits are reported like those that the plugin checks.
    let line = "podset create web --image=nginx --port=80 --max-unavailable=25% --min-ready-seconds=5";
    assert_eq!(
        plugin.run(&format!("{line} --dry-run=server")).ok(),
        "podset.appdeploy.dev/web created (server dry run)\n"
    );
    plugin.run(&format!("pset {}", line.trim_start_matches("podset "))).ok();
    assert!(
        plugin
            .run("podset create x --port=80")
            .fails(2)
            .starts_with("error: an image is needed with --port: --image=NAME\n")
    );
    assert!(plugin.run("podset create").fails(2).contains("create needs a name\n"));

    status(
        &cluster,
        "podset/workers",
        &conditions("False", "Progressing", "0 of 3 pods are ready", Some("Reconciling")),
    );
    let shown = plugin.run("podset status -l team=x").ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "NAME      READY   PODS   REASON        AGE");
    assert!(
        lines[1].starts_with("workers   False   0/3    Progressing   "),
        "{shown}"
    );
    assert_eq!(lines[2..], ["", "workers: 0 of 3 pods are ready"]);
    assert_eq!(
        plugin.run("podsets status -o name").ok(),
        "podset.appdeploy.dev/web\npodset.appdeploy.dev/workers\n"
    );
    // Neither verb takes the one for the other.
    assert_eq!(plugin.run("status -o name").ok(), "");
    let said = plugin.run("delete podset/workers").fails(2);
    assert!(
        said.starts_with("error: podset/workers is not an app: nothing was done\n"),
        "{said}"
    );
    let said = plugin.run("podset status nope").fails(1);
    assert!(
        said.ends_with(
            "why:  namespace default has no pod set of that name\n  next: kubectl appdeploy podset status -A\n"
        ),
        "{said}"
    );
}

#[test]
fn pod_set_is_scaled_waited_for_and_deleted_with_its_pods() {
    let cluster = ControlPlane::builder()
        .controller_manager(&["garbagecollector"])
        .start()
        .unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run("install --wait=false --webhooks=false").ok();
    plugin.run("podset create workers").ok();
    let waiting = plugin.start("podset scale workers --replicas=2 --wait --timeout=30s");
    cluster
        .kubectl(&[
            "wait",
            "podset/workers",
            "--for=jsonpath={.spec.replicas}=2",
            "--timeout=20s",
        ])
        .unwrap();
    let mut ready = conditions("True", "Available", "2 pods are ready", None);
    (ready["observedGeneration"], ready["readyReplicas"]) = (2.into(), 2.into());
    status(&cluster, "podset/workers", &ready);
    let done = Run::of(waiting);
    assert!(
        done.err.ends_with("podset.appdeploy.dev/workers is ready (2/2)\n"),
        "{done:?}"
    );
    assert_eq!(done.ok(), "podset.appdeploy.dev/workers scaled\n");

    let owner = uid(&cluster, "podset/workers");
    pod(&cluster, "workers-0", Some(("PodSet", &owner)), None);
    pod(&cluster, "workers-1", Some(("PodSet", &owner)), None);
    // A pod with the same label is not thereby one of the set.
    pod(&cluster, "stranger", None, None);
    let guard = |guards: Value| {
        let patch = json!({"metadata": {"finalizers": guards}}).to_string();
        cluster
            .kubectl(&["patch", "pod/workers-1", "--type=merge", "-p", &patch])
            .unwrap();
    };
    guard(json!(["example.com/guard"]));
    let said = plugin.run("podset delete workers --timeout=3s").fails(4);
    assert!(
        said.ends_with(
            "podset.appdeploy.dev/workers is not deleted after 3s\n  why:  pod/workers-1 exists, blocked by the finalizer example.com/guard\n  next: kubectl describe pod/workers-1 -n default\n"
        ),
        "{said}"
    );
    guard(Value::Null);
    plugin
        .run("podset delete workers --ignore-not-found --timeout=30s")
        .ok();
    assert_eq!(
        cluster.kubectl(&["get", "pods", "-o", "name"]).unwrap(),
        "pod/stranger\n"
    );

    plugin.run("podset create workers").ok();
    let owner = uid(&cluster, "podset/workers");
    pod(&cluster, "workers-0", Some(("PodSet", &owner)), None);
    assert_eq!(
        plugin
            .run("podset delete --all --yes --cascade=orphan --timeout=30s")
            .ok(),
        "podset.appdeploy.dev/workers deleted\n"
    );
    assert!(
        cluster
            .kubectl(&["get", "pods", "-o", "name"])
            .unwrap()
            .contains("pod/workers-0")
    );
}

#[test]
fn number_of_requests_for_a_pod_set_is_independent_of_its_pods() {
    let (cluster, plugin) = Plugin::installed();
    plugin.run("podset create workers --replicas=3").ok();
    status(&cluster, "podset/workers", &conditions("True", "Available", "", None));
    let owner = uid(&cluster, "podset/workers");
    let cost = |line: &str| {
        let mark = cluster.audit().mark().unwrap();
        plugin.run(line).ok();
        let requests = cluster.audit().since(mark).unwrap();
        requests.by_user_agent_prefix("kubectl-appdeploy/").count()
    };
    for round in 0..3 {
        pod(&cluster, &format!("workers-{round}"), Some(("PodSet", &owner)), None);
        let costs = ["podset status", "podset status workers", "podset describe workers"].map(cost);
        assert_eq!(costs, [1, 3, 5]);
    }
    let page = plugin.run("podset status workers").ok();
    assert!(page.contains("\n└─Pod/workers-2   0/1     Pending"), "{page}");
}

#[test]
fn installation_without_pod_sets_gets_the_command_to_run() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run("install --wait=false --webhooks=false").ok();
    plugin.run("create shop --image=nginx").ok();
    let allow = [
        "annotate",
        "crd",
        "podsets.appdeploy.dev",
        "appdeploy.dev/allow-deletion=true",
    ];
    cluster.kubectl(&allow).unwrap();
    cluster
        .kubectl(&["delete", "crd", "podsets.appdeploy.dev", "--timeout=30s"])
        .unwrap();
    for line in [
        "podset status",
        "podset status workers",
        "podset status -w",
        "podset create workers",
        "podset scale workers --replicas=2",
        "podset delete workers --ignore-not-found",
        "podset replace workers --pod=workers-0",
        "podset describe workers",
    ] {
        assert_eq!(
            plugin.run(line).fails(1),
            "error: this cluster does not have the PodSet API\n  why:  AppDeploy is not installed, or in a version without pod sets\n  next: kubectl appdeploy install\n",
            "{line}"
        );
    }
    let plan = plugin.run("uninstall --delete-crds --dry-run=client").ok();
    assert!(
        plan.contains("  1 app, with all their children:\n    default: shop\n") && !plan.contains("podsets"),
        "{plan}"
    );
    plugin.run("status").ok();
    let installed = plugin.run("install --wait=false --webhooks=false").ok();
    assert!(
        installed.contains("customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev created"),
        "{installed}"
    );
    plugin.run("podset create workers").ok();
}
