//! Replacing pods of choice.

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, Run, conditions, status};
use crate::podsets::{pod, uid};

/// An API server with a pod set of two pods, and no operator.
fn workers() -> (PooledControlPlane, Plugin, String) {
    let (cluster, plugin) = Plugin::installed();
    plugin.run("podset create workers --replicas=2").ok();
    let owner = uid(&cluster, "podset/workers");
    for name in ["workers-0", "workers-1"] {
        pod(&cluster, name, Some(("PodSet", &owner)), None);
    }
    (cluster, plugin, owner)
}

fn wanted(cluster: &ControlPlane) -> String {
    cluster
        .kubectl(&["get", "podset/workers", "-o", "jsonpath={.spec.replacePods[*].name}"])
        .unwrap()
}

#[test]
fn only_pods_of_the_set_are_replaced() {
    let (cluster, plugin, _) = workers();
    pod(
        &cluster,
        "foreign",
        Some(("PodSet", "11111111-2222-3333-4444-555555555555")),
        None,
    );
    pod(&cluster, "free", None, None);
    let before = uid_and_version(&cluster);
    for (line, said) in [
        (
            "podset replace workers --pod=workers-0 --pod=workers-7",
            "error: podset.appdeploy.dev/workers has no pod workers-7: nothing was changed\n  why:  its pods are workers-0, workers-1\n  next: kubectl appdeploy podset status workers\n",
        ),
        (
            "podset replace workers --pod=foreign,free",
            "error: podset.appdeploy.dev/workers has no pods foreign, free: nothing was changed\n  why:  pod foreign is owned by PodSet workers\n  why:  pod free is owned by no owner\n  why:  its pods are workers-0, workers-1\n  next: kubectl appdeploy podset status workers\n",
        ),
    ] {
        assert_eq!(plugin.run(line).fails(1), said);
    }
    assert!(plugin.run("podset replace workers").fails(2).contains("--pod <POD>"));
    for mode in ["client", "server"] {
        let json = plugin
            .run(&format!(
                "podset replace workers --pod=workers-1 --dry-run={mode} -o json"
            ))
            .ok();
        let json: Value = serde_json::from_str(&json).unwrap();
        let chosen = json!([{"name": "workers-1", "uid": uid(&cluster, "pod/workers-1")}]);
        assert_eq!(json["spec"]["replacePods"], chosen, "{mode}");
    }
    assert_eq!(uid_and_version(&cluster), before);

    let run = plugin.run("podset replace workers --pod=pod/workers-1");
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        (
            "podset.appdeploy.dev/workers marked workers-1 for replacement\n",
            "next: kubectl appdeploy podset status workers -w\n"
        )
    );
    assert_eq!(wanted(&cluster), "workers-1");
    assert_eq!(
        plugin.run("podset replace workers --pod=workers-1").ok(),
        "podset.appdeploy.dev/workers unchanged: already marked for replacement: workers-1\n"
    );
    let page = plugin.run("podset status workers").ok();
    assert!(
        page.contains("Pod/workers-1   0/1     Pending, being replaced"),
        "{page}"
    );
    // A name whose pod was deleted is removed from the list.
    cluster.kubectl(&["delete", "pod/workers-1"]).unwrap();
    plugin.run("podset replace workers --pod=workers-0").ok();
    assert_eq!(wanted(&cluster), "workers-0");
}

fn uid_and_version(cluster: &ControlPlane) -> String {
    let path = "jsonpath={.metadata.uid} {.metadata.resourceVersion}";
    cluster.kubectl(&["get", "podset/workers", "-o", path]).unwrap()
}

#[test]
fn conflict_is_retried_once() {
    let (cluster, _, _) = workers();
    let proxy = Proxy::before(&cluster, "admin", &["system:masters"]).unwrap();
    let plugin = Plugin::of(proxy.kubeconfig());
    let patches = || Requests::with(&[Verb::Patch]).on("podsets");
    let conflict = || Answer::refusal(409, "Conflict", "the object has been modified");
    let rule = proxy.add(Rule::new(patches(), Action::Answer(conflict())).first(1));
    plugin.run("podset replace workers --pod=workers-0").ok();
    assert_eq!((wanted(&cluster).as_str(), proxy.hits(rule)), ("workers-0", 1));

    let rule = proxy.add(Rule::new(patches(), Action::Answer(conflict())));
    let said = plugin.run("podset replace workers --pod=workers-1").fails(1);
    assert!(
        said.ends_with("next: another client changed it at the same time: run the command again\n"),
        "{said}"
    );
    assert_eq!((wanted(&cluster).as_str(), proxy.hits(rule)), ("workers-0", 2));
}

#[test]
fn wait_ends_when_the_pod_is_deleted_and_the_set_is_ready() {
    let (cluster, plugin, owner) = workers();
    let at = |generation: i32, mut status: Value| {
        (status["observedGeneration"], status["readyReplicas"]) = (generation.into(), 2.into());
        status
    };
    status(
        &cluster,
        "podset/workers",
        &at(1, conditions("True", "Available", "", None)),
    );

    let waiting = plugin.start("podset replace workers --pod=workers-0 --wait --timeout=60s");
    let wait = |path: &str| {
        let path = format!("--for=jsonpath={path}");
        cluster
            .kubectl(&["wait", "podset/workers", &path, "--timeout=20s"])
            .unwrap();
    };
    wait("{.spec.replacePods[0].name}=workers-0");
    let busy = conditions("False", "Progressing", "replacing workers-0", Some("Reconciling"));
    status(&cluster, "podset/workers", &at(2, busy.clone()));
    let old = uid(&cluster, "pod/workers-0");
    pod(&cluster, "workers-2", Some(("PodSet", &owner)), Some(&old));
    let page = plugin.run("podset status workers").ok();
    assert!(
        page.contains("├─Pod/workers-0     0/1     Pending, being replaced"),
        "{page}"
    );
    assert!(page.contains("│ └─Pod/workers-2   0/1     Pending "), "{page}");
    cluster.kubectl(&["delete", "pod/workers-0"]).unwrap();
    status(
        &cluster,
        "podset/workers",
        &at(2, conditions("True", "Available", "", None)),
    );
    let done = Run::of(waiting);
    assert!(
        done.err
            .contains("workers: workers-2 is starting in place of workers-0 (Pending)\n"),
        "{}",
        done.err
    );
    assert!(done.err.ends_with("workers is ready (2/2)\n"), "{}", done.err);
    done.ok();

    // The timeout reports what it waited for.
    status(&cluster, "podset/workers", &at(3, busy.clone()));
    let said = plugin
        .run("podset replace workers --pod=workers-1 --wait --timeout=2s")
        .fails(4);
    assert!(
        said.contains("podset.appdeploy.dev/workers has not replaced workers-1 after 2s; it may still do so\n  why:  no pod was started in place of workers-1 yet\n  next: kubectl appdeploy podset status workers -w"),
        "{said}"
    );

    // A stalled object ends the wait.
    let mut stalled = conditions("False", "ImageNotFound", "image x was not found", Some("Stalled"));
    stalled["cause"] = json!({"reason": "ImageNotFound", "message": "image x was not found", "next": "kubectl edit podset workers -n default"});
    status(&cluster, "podset/workers", &at(3, stalled));
    let said = plugin
        .run("podset replace workers --pod=workers-1 --wait --timeout=60s")
        .fails(3);
    assert!(
        said.ends_with("will not become ready by itself\n  why:  image x was not found\n  next: kubectl edit podset workers -n default\n"),
        "{said}"
    );
}
