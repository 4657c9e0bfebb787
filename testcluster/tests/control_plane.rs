//! Starts control planes, uses Kubernetes, and checks that nothing is left behind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use testcluster::ControlPlane;
use testcluster::process::Record;
use testcluster::wait::eventually;

/// etcd, the API server, the controller manager, the scheduler and kwok.
const ALL_PROCESSES: usize = 5;

#[test]
fn control_plane_authenticates_and_authorizes_users() {
    let control_plane = ControlPlane::start().unwrap();
    println!("ready in {:?}", control_plane.started_in());
    assert!(
        control_plane
            .kubectl(&["get", "--raw", "/version"])
            .unwrap()
            .contains("\"v1.36.3\"")
    );

    let alice = control_plane.kubectl_as(&control_plane.kubeconfig_for("alice", &["dev"]).unwrap());
    let who = alice
        .run(&["auth", "whoami", "-o", "jsonpath={.status.userInfo}"])
        .unwrap();
    assert!(who.contains("\"alice\"") && who.contains("\"dev\""), "{who}");

    let refused = alice.run(&["get", "pods"]).unwrap_err().to_string();
    assert!(
        refused.contains("User \"alice\" cannot list resource \"pods\""),
        "{refused}"
    );
    for right in [
        ["create", "role", "reader", "--verb=list", "--resource=pods"],
        ["create", "rolebinding", "reader", "--role=reader", "--group=dev"],
    ] {
        control_plane.kubectl(&right).unwrap();
    }
    eventually("alice may list pods", || alice.run(&["get", "pods"]).is_ok());
}

#[test]
fn control_planes_run_concurrently_with_separate_objects() {
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(|| ControlPlane::start().unwrap());
        let two = scope.spawn(|| ControlPlane::start().unwrap());
        (one.join().unwrap(), two.join().unwrap())
    });
    one.kubectl(&["create", "namespace", "only-here"]).unwrap();
    two.kubectl(&["get", "namespace", "only-here"]).unwrap_err();
    assert_ne!(one.url(), two.url());
}

#[test]
fn listed_controllers_run() {
    let control_plane = ControlPlane::builder()
        .controller_manager(&["deployment", "replicaset", "garbagecollector", "serviceaccount"])
        .start()
        .unwrap();
    control_plane
        .kubectl(&["create", "deployment", "web", "--image=web", "--replicas=2"])
        .unwrap();
    let pods = || {
        control_plane
            .kubectl(&["get", "pods", "-l", "app=web", "-o", "name"])
            .unwrap()
            .lines()
            .count()
    };
    eventually("two pods exist", || pods() == 2);
    // Only the garbage collector removes them: without a node, no kubelet reports that they ended.
    control_plane
        .kubectl(&["delete", "deployment", "web", "--cascade=foreground"])
        .unwrap();
    eventually("the pods are deleted", || pods() == 0);
}

#[test]
fn pods_are_admitted_without_the_service_account_controller() {
    let control_plane = ControlPlane::start().unwrap();
    control_plane.kubectl(&["run", "web", "--image=web"]).unwrap();
}

#[test]
fn api_server_has_the_flags_of_the_builder() {
    let control_plane = ControlPlane::builder()
        .apiserver_flag("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
        .start()
        .unwrap();
    let alice = control_plane.kubectl_as(&control_plane.kubeconfig_for("alice", &[]).unwrap());
    control_plane
        .kubectl(&[
            "create",
            "clusterrole",
            "maker",
            "--verb=create,get,patch",
            "--resource=configmaps",
        ])
        .unwrap();
    control_plane
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "maker",
            "--clusterrole=maker",
            "--user=alice",
        ])
        .unwrap();
    control_plane.kubectl(&["create", "configmap", "owner"]).unwrap();
    let uid = control_plane
        .kubectl(&["get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"])
        .unwrap();
    let owned = |name: &str, block: bool| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default, ownerReferences: \
             [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: {block}}}]}}}}"
        )
    };
    eventually("alice may create config maps", || {
        alice.apply(&owned("free", false)).is_ok()
    });
    let refused = alice.apply(&owned("blocking", true)).unwrap_err().to_string();
    assert!(refused.contains("cannot set blockOwnerDeletion"), "{refused}");
}

#[test]
fn restarted_api_server_has_its_url_and_objects() {
    let control_plane = ControlPlane::start().unwrap();
    control_plane.kubectl(&["create", "configmap", "kept"]).unwrap();
    let url = control_plane.url();
    control_plane.stop_apiserver();
    control_plane.kubectl(&["get", "configmap", "kept"]).unwrap_err();
    control_plane.pause_apiserver().unwrap_err();
    control_plane.start_apiserver().unwrap();
    control_plane.kubectl(&["get", "configmap", "kept"]).unwrap();
    assert_eq!(control_plane.url(), url);
}

#[test]
fn paused_api_server_answers_after_it_is_resumed() {
    let control_plane = Arc::new(ControlPlane::start().unwrap());
    control_plane.pause_apiserver().unwrap();
    let refused = control_plane
        .kubectl(&["get", "namespaces", "--request-timeout=1s"])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("imeout"), "{refused}");
    control_plane.resume_apiserver().unwrap();
    control_plane.kubectl(&["get", "namespaces"]).unwrap();
}

#[test]
fn panic_leaves_no_process_and_no_folder() {
    let (send, receive) = std::sync::mpsc::channel();
    let panicked = thread::spawn(move || {
        let control_plane = ControlPlane::builder().fake_nodes(1).start().unwrap();
        send.send(processes_and_folder(&control_plane)).unwrap();
        panic!("as a test that fails does");
    })
    .join();
    assert!(panicked.is_err());
    let (processes, folder) = receive.recv().unwrap();
    assert_eq!(processes.len(), ALL_PROCESSES);
    assert!(!processes.iter().any(Record::is_alive), "a process is left");
    assert!(!folder.exists(), "{} is left", folder.display());
}

/// The variable for the process that is killed.
const OWNER: &str = "TESTCLUSTER_TEST_OWNER";

#[test]
fn sigkill_leaves_no_process() {
    if std::env::var_os(OWNER).is_some() {
        let control_plane = ControlPlane::builder().fake_nodes(1).start().unwrap();
        let (processes, folder) = processes_and_folder(&control_plane);
        let processes: Vec<String> = processes.iter().map(ToString::to_string).collect();
        println!("started: {} in {}", processes.join(","), folder.display());
        loop {
            thread::park();
        }
    }
    // This test program as an owner that can be killed.
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sigkill_leaves_no_process", "--nocapture"])
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
    assert_eq!(processes.len(), ALL_PROCESSES);
    assert!(processes.iter().all(Record::is_alive));

    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("all processes end", || !processes.iter().any(Record::is_alive));

    // The kernel does not remove folders, so the next control plane does.
    assert!(Path::new(folder).exists());
    let _next = ControlPlane::start().unwrap();
    assert!(!Path::new(folder).exists());
}

fn processes_and_folder(control_plane: &ControlPlane) -> (Vec<Record>, PathBuf) {
    (
        control_plane.pids().into_iter().map(Record::of).collect(),
        control_plane.folder().to_owned(),
    )
}
