//! What comes of an object is the same with and without webhooks.

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{Cluster, DEPLOYMENT, INGRESS, Kind, Namespace, POD, SERVICE, Webhooks};

fn specs() -> [Value; 4] {
    [
        json!({"image": "nginx"}),
        json!({"image": "nginx", "port": 80}),
        json!({"image": "nginx:1", "port": 8080, "host": "a.example.com", "path": "/api", "replicas": 3,
            "env": [{"name": "A", "value": "b"}], "securityProfile": "Restricted",
            "resources": {"requests": {"cpu": "10m"}}}),
        json!({"image": "nginx:1", "port": 8080, "expose": "Cluster", "healthCheck": {"path": "/healthz"}}),
    ]
}

/// Returns what is left of an object without what each object has of its own.
fn essence(mut object: Value) -> Value {
    let meta = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "namespace",
    ] {
        meta.remove(field);
    }
    // It is made of the owner's UID, too.
    if let Some(notes) = meta["annotations"].as_object_mut() {
        notes.remove("appdeploy.dev/desired-hash");
    }
    for owner in meta["ownerReferences"].as_array_mut().unwrap() {
        owner["uid"].take();
    }
    for field in ["clusterIP", "clusterIPs"] {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove(field);
        }
    }
    object
}

fn children(space: &Namespace) -> Vec<Value> {
    for (number, spec) in specs().into_iter().enumerate() {
        space.settled_app(&format!("app-{number}"), spec);
    }
    space.podset_of(
        "set",
        json!({"replicas": 2, "template": {"image": "busybox"}}),
        &["set-0", "set-1"],
    );
    let of = |kind: Kind| space.list(kind).into_iter().map(essence);
    [DEPLOYMENT, SERVICE, INGRESS, POD].into_iter().flat_map(of).collect()
}

#[test]
fn children_are_the_same_with_and_without_webhooks() {
    // Two clusters, so that names and namespaces are the same.
    let of = |is_asked: bool| {
        let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
        let _operator = if is_asked {
            Webhooks::install(&cluster).operator(&cluster, &[])
        } else {
            cluster.operator(&[])
        };
        children(&cluster.namespace("same"))
    };
    let (asked, alone) = (of(true), of(false));
    assert_eq!(asked.len(), 4 + 3 + 2 + 2);
    assert_eq!(asked, alone);
}
