//! A reused control plane has no objects of the earlier test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what a test needs and does not get is its failure"
)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use testcluster::process::Record;
use testcluster::wait::eventually;
use testcluster::{ControlPlane, PooledControlPlane};

/// Returns a control plane that only tests with the same definition share.
fn pooled(definition: &str) -> PooledControlPlane {
    let definition = format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{definition}", "namespace": "default"}},
            "data": {{"is": "defined"}}}}"#
    );
    ControlPlane::builder().definition(definition).pooled().unwrap()
}

const CRD: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

/// Returns the names of all objects of these kinds.
fn names(control_plane: &ControlPlane, kinds: &str) -> BTreeSet<String> {
    let names = control_plane.kubectl(&["get", kinds, "-A", "-o", "name"]).unwrap();
    names.lines().map(ToOwned::to_owned).collect()
}

/// Creates, changes and deletes objects, including custom resources.
fn disturb(control_plane: &ControlPlane) {
    control_plane.apply(CRD).unwrap();
    let established = ["wait", "crd/things.example.com", "--for=condition=Established"];
    control_plane.kubectl(&established).unwrap();
    control_plane.kubectl(&["create", "namespace", "team"]).unwrap();
    let thing = r#"{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "one", "namespace": "team",
        "finalizers": ["example.com/kept"]}}"#;
    control_plane.apply(thing).unwrap();
    let service = ["create", "service", "nodeport", "web", "--tcp=80", "--node-port=30080"];
    control_plane.kubectl(&service).unwrap();
    control_plane
        .kubectl(&["patch", "configmap", "changed", "-p", r#"{"data": {"is": "changed"}}"#])
        .unwrap();
    control_plane.kubectl(&["delete", "clusterrole", "edit"]).unwrap();
    let policy = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "never"}, "webhooks": [{"name": "never.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]}]}"#;
    control_plane.apply(policy).unwrap();
    let refused = ["create", "secret", "generic", "refused"];
    eventually("the webhook is called", || control_plane.kubectl(&refused).is_err());
}

#[test]
fn reused_control_plane_has_no_objects_of_the_earlier_test() {
    const KINDS: &str = "namespaces,configmaps,services,clusterroles,clusterrolebindings,crd,apiservices,flowschemas,\
                         validatingwebhookconfigurations";
    let first = pooled("changed");
    let (url, before) = (first.url(), names(&first, KINDS));
    disturb(&first);
    drop(first);
    for _ in 0..3 {
        let next = pooled("changed");
        assert_eq!(next.url(), url);
        let asked = next.audit().all().unwrap();
        let of_kubectl = asked.by_user_agent_prefix("kubectl");
        assert_eq!(of_kubectl.count(), 0, "{:?}", of_kubectl.tally());
        let data = ["get", "configmap", "changed", "-o", "jsonpath={.data.is}"];
        assert_eq!(next.kubectl(&data).unwrap(), "defined");
        // API servers need a moment to notice that a kind or a webhook was deleted.
        eventually("kinds and webhooks are deleted", || names(&next, KINDS) == before);
        next.kubectl(&["get", "things"]).unwrap_err();
        eventually("the webhook is not called", || {
            next.kubectl(&["create", "secret", "generic", "taken"]).is_ok()
        });
        disturb(&next);
    }
}

#[test]
fn disturbed_control_plane_is_not_reused() {
    let disturbances: [fn(&ControlPlane); 2] = [
        |control_plane| {
            control_plane.kill_apiserver().unwrap();
            control_plane.start_apiserver().unwrap();
        },
        |_| panic!("as a test that fails does"),
    ];
    for disturbance in disturbances {
        let (url, folder) = thread::spawn(move || {
            let control_plane = pooled("disturbed");
            let known = (control_plane.url(), control_plane.folder().to_owned());
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturbance(&control_plane)));
            // The control plane is dropped while a panic unwinds.
            let ended = thread::spawn(move || {
                let _control_plane = control_plane;
                assert!(done.is_ok());
            });
            let _ = ended.join();
            known
        })
        .join()
        .unwrap();
        assert!(!folder.exists(), "{} is left", folder.display());
        assert_ne!(pooled("disturbed").url(), url);
    }
}

/// The variable for the process that ends.
const OWNER: &str = "TESTCLUSTER_TEST_POOL_OWNER";

#[test]
fn pool_leaves_nothing_when_the_process_ends() {
    if std::env::var_os(OWNER).is_some() {
        let control_plane = pooled("owned");
        let processes: Vec<String> = control_plane
            .pids()
            .into_iter()
            .map(|pid| Record::of(pid).to_string())
            .collect();
        println!(
            "started: {} in {}",
            processes.join(","),
            control_plane.folder().display()
        );
        return;
    }
    // This test program as an owner that ends while its pool has a control plane.
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pool_leaves_nothing_when_the_process_ends", "--nocapture"])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let announced = lines.find_map(|line| Some(line.split_once("started: ")?.1.to_owned()));
    let announced = announced.expect("the owner exited before its control plane was ready");
    let (processes, folder) = announced.split_once(" in ").unwrap();
    let processes: Vec<Record> = processes.split(',').map(|record| record.parse().unwrap()).collect();
    assert_eq!(processes.len(), 2);
    lines.for_each(drop);
    assert!(owner.wait().unwrap().success());
    eventually("processes and folder are removed", || {
        !processes.iter().any(Record::is_alive) && !Path::new(folder).exists()
    });
}
