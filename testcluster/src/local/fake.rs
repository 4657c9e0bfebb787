//! kwok's nodes: for whoever is not root, or not on Linux. Pods are scheduled and say that they run.

use anyhow::Result;
use serde_json::{Value, json};
use testcluster::binaries::{Binaries, Program};

use super::daemons::{self, Daemons};
use super::layout::Layout;
use super::plane;

const NODES: [&str; 2] = ["fake-1", "fake-2"];
/// Marks the nodes that kwok shall play.
const ANNOTATION: &str = "kwok.x-k8s.io/node";
const ADDRESS: &str = "127.0.0.1:17247";

/// Starts kwok and creates its nodes.
pub(crate) fn up(layout: &Layout, programs: &Binaries, daemons: &mut Daemons) -> Result<()> {
    let kubectl = || plane::kubectl(layout, programs);
    let nodes = json!({ "apiVersion": "v1", "kind": "List", "items": NODES.map(node) });
    kubectl()
        .args([
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=local-cluster",
            "-f",
            "-",
        ])
        .stdin(nodes.to_string())
        .run()?;
    // No ingress class: nobody would fill an Ingress's address, and an app would wait for it for ever.
    let stages = layout.write("stages.yaml", include_str!("stages.yaml"))?;
    let args = [
        format!("--config={}", stages.display()),
        format!("--kubeconfig={}", layout.at("kwok.kubeconfig").display()),
        format!("--manage-nodes-with-annotation-selector={ANNOTATION}=fake"),
        format!("--server-address={ADDRESS}"),
        // Their Lease says that nodes are alive; kwok keeps it by itself.
        "--node-lease-duration-seconds=40".into(),
    ];
    daemons.ensure("kwok", &programs.path(Program::Kwok), &args, &[])?;
    daemons.wait("kwok", 30, || daemons::answers(ADDRESS))?;
    daemons.wait("kwok", 60, || {
        let path = "-o=jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = kubectl().args(["get", "nodes", path]).run().unwrap_or_default();
        ready.split_whitespace().filter(|status| *status == "True").count() == NODES.len()
    })?;
    daemons.wait("kube-controller-manager", 30, || {
        kubectl()
            .args(["get", "serviceaccount", "default", "--namespace=default"])
            .succeeds()
    })
}

fn node(name: &str) -> Value {
    let size = json!({ "cpu": "32", "memory": "256Gi", "pods": "1000" });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "annotations": { ANNOTATION: "fake" }, "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable": size, "capacity": size },
    })
}
