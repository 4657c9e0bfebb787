//! What `--wait` makes of a status, and in which code it ends.

use std::time::{Duration, Instant};

use serde_json::json;
use testcluster::ControlPlane;

use crate::plugin::{Plugin, Run, conditions, status};

#[test]
fn exit_code_of_a_wait_follows_the_status() {
    let (cluster, plugin) = Plugin::installed();

    // The timeout reports the last state, and that no operator works on it.
    let late = plugin.run("create late --image=nginx --port=80 --wait --timeout=1s");
    assert_eq!(late.out, "appdeploy.appdeploy.dev/late created\n");
    let said = late.fails(4);
    assert!(
        said.contains("is not ready after 1s; it may still become so\n  why:  the operator is not running"),
        "{said}"
    );

    // It becomes ready during the wait.
    let waiting = plugin.start("create shop --image=nginx --port=80 --wait --timeout=30s");
    appear(&cluster, "shop");
    status(
        &cluster,
        "appdeploy/shop",
        &conditions("False", "Progressing", "0 of 1 pods are ready", Some("Reconciling")),
    );
    status(&cluster, "appdeploy/shop", &conditions("True", "Available", "", None));
    let done = Run::of(waiting);
    assert!(
        done.err.ends_with("shop is ready: http://shop.default\n"),
        "{}",
        done.err
    );
    done.ok();

    // Ready is about what the operator sees. What it may not see is said by `--wait` as by `status`.
    let waiting = plugin.start("create safe --image=nginx --port=80 --tls-secret=safe-tls --wait --timeout=30s");
    appear(&cluster, "safe");
    status(&cluster, "appdeploy/safe", &conditions("True", "Available", "", None));
    let done = Run::of(waiting);
    let sentence = "the TLS Secret safe-tls does not exist, so browsers get another certificate";
    let next = "next: kubectl create secret tls safe-tls -n default --cert=tls.crt --key=tls.key";
    assert!(
        done.err.ends_with(&format!("\nWarning: {sentence}\n{next}\n")),
        "{}",
        done.err
    );
    assert!(done.err.contains("safe is ready"), "{}", done.err);
    done.ok();
    let page = plugin.run("status safe").ok();
    assert!(page.contains(&format!("why:  {sentence}\n{next}\n")), "{page}");
    // Several are waited for by other means.
    let waiting = plugin.start("set image safe=nginx:2 --wait --timeout=30s");
    let mut works = conditions("True", "Available", "", None);
    works["observedGeneration"] = 2.into();
    cluster
        .kubectl(&[
            "wait",
            "appdeploy/safe",
            "--for=jsonpath={.metadata.generation}=2",
            "--timeout=30s",
        ])
        .unwrap();
    status(&cluster, "appdeploy/safe", &works);
    let done = Run::of(waiting);
    assert!(
        done.err.contains(&format!("Warning: {sentence}\n{next}\n")),
        "{}",
        done.err
    );
    done.ok();

    // A stalled app ends the wait.
    let began = Instant::now();
    let waiting = plugin.start("create bad --image=nginx:1.99 --port=80 --wait --timeout=60s");
    appear(&cluster, "bad");
    let mut broken = conditions(
        "False",
        "ImageNotFound",
        "image nginx:1.99 was not found",
        Some("Stalled"),
    );
    broken["cause"] = json!({"reason": "ImageNotFound", "message": "image nginx:1.99 was not found", "next": "kubectl edit appdeploy bad -n default"});
    status(&cluster, "appdeploy/bad", &broken);
    let said = Run::of(waiting).fails(3);
    assert!(
        said.ends_with("will not become ready by itself\n  why:  image nginx:1.99 was not found\n  next: kubectl edit appdeploy bad -n default\n"),
        "{said}"
    );
    assert!(began.elapsed() < Duration::from_secs(50));

    // A status of before a change is not taken for one of after it.
    let said = plugin.run("scale shop --replicas=3 --wait --timeout=1s").fails(4);
    assert!(said.contains("shop: waiting for the operator"), "{said}");
    // A time of zero looks once.
    assert_eq!(plugin.run("scale shop --replicas=3 --wait --timeout=0").code, 4);
}

fn appear(cluster: &ControlPlane, name: &str) {
    cluster
        .kubectl(&["wait", "--for=create", &format!("appdeploy/{name}"), "--timeout=20s"])
        .unwrap();
}

#[test]
fn blocked_deletion_names_the_finalizer() {
    let cluster = ControlPlane::builder()
        .controller_manager(&["garbagecollector"])
        .start()
        .unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run("install --wait=false --webhooks=false").ok();
    plugin.run("create shop --image=nginx --port=80").ok();
    cluster
        .kubectl(&[
            "patch",
            "appdeploy",
            "shop",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":["example.com/guard"]}}"#,
        ])
        .unwrap();
    let said = plugin.run("delete shop --timeout=2s").fails(4);
    assert!(
        said.contains("is not deleted after 2s\n  why:  the finalizer example.com/guard blocks it"),
        "{said}"
    );
    cluster
        .kubectl(&[
            "patch",
            "appdeploy",
            "shop",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .unwrap();
    plugin.run("delete shop --ignore-not-found --timeout=20s").ok();

    // A child with a third-party finalizer blocks its owner in a foreground deletion.
    plugin.run("create blog --image=nginx --port=80").ok();
    let uid = cluster
        .kubectl(&["get", "appdeploy", "blog", "-o", "jsonpath={.metadata.uid}"])
        .unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "blog", "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "appdeploy", "app.kubernetes.io/name": "blog"}, "finalizers": ["lb.example.com/guard"],
        "ownerReferences": [{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "blog", "uid": uid, "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"ports": [{"port": 80}]}});
    cluster.apply(&service.to_string()).unwrap();
    let said = plugin.run("delete blog --timeout=5s").fails(4);
    assert!(
        said.contains("why:  service/blog exists, blocked by the finalizer lb.example.com/guard"),
        "{said}"
    );
}
