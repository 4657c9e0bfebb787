//! Fake nodes by kwok: pods are scheduled and report that they run, but no container does.
//!
//! A pod is running and ready as soon as it is scheduled, and it is removed as soon as it is deleted. A status that a test
//! writes is kept, for example of a pod that failed, is not ready, or waits for its image.

use serde_json::{Value, json};

use crate::kubectl::{self, Kubectl};

/// The configuration of kwok.
pub const CONFIG: &str = include_str!("fake_nodes/kwok.yaml");

/// Creates fake nodes named `fake-1`, `fake-2` and so on, with room for 1000 pods each.
///
/// # Errors
/// When the API server rejects them.
pub fn create(kubectl: &Kubectl, count: usize) -> Result<(), kubectl::Error> {
    let nodes: Vec<Value> = (1..=count).map(node).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": nodes });
    kubectl.apply(&list.to_string()).map(drop)
}

/// Returns the number of ready nodes.
///
/// # Errors
/// When the API server does not answer.
pub fn ready(kubectl: &Kubectl) -> Result<usize, kubectl::Error> {
    let path = "-o=jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let ready = kubectl.run(&["get", "nodes", path])?;
    Ok(ready.split_whitespace().filter(|status| *status == "True").count())
}

fn node(number: usize) -> Value {
    let name = format!("fake-{number}");
    let size = json!({ "cpu": "32", "memory": "256Gi", "pods": "1000" });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            // Selected by the configuration of kwok.
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": { "kubernetes.io/hostname": name },
        },
        "status": { "allocatable": size, "capacity": size },
    })
}
