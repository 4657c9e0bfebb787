//! On fake nodes pods run, terminate and fail as on real ones, but immediately.

use std::collections::BTreeSet;

use testcluster::ControlPlane;
use testcluster::control_plane::Error;
use testcluster::wait::{TIMEOUT, eventually};

#[test]
fn pods_run_and_terminate_immediately() {
    let control_plane = with_replica_set(20).unwrap();
    println!("ready in {:?}", control_plane.started_in());
    let addresses = control_plane
        .kubectl(&["get", "pods", "-o=jsonpath={.items[*].status.podIP}"])
        .unwrap();
    assert_eq!(addresses.split_whitespace().collect::<BTreeSet<_>>().len(), 20);

    let before = pods(&control_plane).unwrap();
    let deleted = before.first().unwrap();
    // Half of the default grace period of a pod: no container uses it.
    control_plane.kubectl(&["delete", deleted, "--timeout=15s"]).unwrap();
    eventually("the pod is replaced", || {
        let now = pods(&control_plane).unwrap();
        now.len() == 20 && !now.contains(deleted)
    });
    wait_for_ready(&control_plane, 20).unwrap();

    control_plane.kubectl(&["delete", "replicaset", "web"]).unwrap();
    eventually("all pods are deleted", || pods(&control_plane).unwrap().is_empty());
}

#[test]
fn status_that_a_test_writes_is_kept() {
    let control_plane = with_replica_set(3).unwrap();
    let failed = r#"{"status": {"phase": "Failed", "reason": "Evicted"}}"#;
    let unready = r#"{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}"#;
    let waiting = r#"{"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}}"#;
    let written = [
        (failed, "Failed True"),
        (unready, "Running False"),
        (waiting, "Pending False"),
    ];
    let pods: Vec<String> = pods(&control_plane).unwrap().into_iter().collect();
    for (pod, (patch, _)) in pods.iter().zip(written) {
        let patch = format!("--patch={patch}");
        control_plane
            .kubectl(&["patch", pod, "--subresource=status", &patch])
            .unwrap();
    }
    // kwok receives pods in the order of their changes, so it has received the patches when this one runs.
    control_plane.kubectl(&["run", "later", "--image=web"]).unwrap();
    control_plane
        .kubectl(&["wait", "pod/later", "--for=condition=Ready", "--timeout=60s"])
        .unwrap();
    for (pod, (_, stays)) in pods.iter().zip(written) {
        let path = "-o=jsonpath={.status.phase} {.status.conditions[?(@.type==\"Ready\")].status}";
        assert_eq!(control_plane.kubectl(&["get", pod, path]).unwrap(), stays);
    }
}

#[test]
fn terminating_pod_is_deleted_once_and_never_its_replacement() {
    let control_plane = with_replica_set(20).unwrap();
    let mark = control_plane.audit().mark().unwrap();
    control_plane.kubectl(&["delete", "replicaset", "web"]).unwrap();
    eventually("all pods are deleted", || pods(&control_plane).unwrap().is_empty());
    // kwok receives pods in the order of their changes, so it has received its own deletions when this one runs.
    control_plane.kubectl(&["run", "later", "--image=web"]).unwrap();
    control_plane
        .kubectl(&["wait", "pod/later", "--for=condition=Ready", "--timeout=60s"])
        .unwrap();
    let asked = control_plane.audit().since(mark).unwrap().by_user("testcluster-kwok");
    let deletions = asked.that(|request| request.verb == "delete");
    assert_eq!(deletions.tally(), [("delete pods".to_owned(), 20)].into());
}

fn with_replica_set(replicas: usize) -> Result<ControlPlane, Error> {
    let control_plane = ControlPlane::builder().fake_nodes(1).start()?;
    let pods = r#""selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]}}"#;
    control_plane.apply(&format!(
        r#"{{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {{"name": "web", "namespace": "default"}},
            "spec": {{"replicas": {replicas}, {pods}}}}}"#
    ))?;
    wait_for_ready(&control_plane, replicas)?;
    Ok(control_plane)
}

fn wait_for_ready(control_plane: &ControlPlane, replicas: usize) -> Result<(), Error> {
    let condition = format!("--for=jsonpath={{.status.readyReplicas}}={replicas}");
    let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
    control_plane.kubectl(&["wait", "replicaset/web", &condition, &timeout])?;
    Ok(())
}

fn pods(control_plane: &ControlPlane) -> Result<BTreeSet<String>, Error> {
    let pods = control_plane.kubectl(&["get", "pods", "-o", "name"])?;
    Ok(pods.lines().map(str::to_owned).collect())
}
