//! What a ReplicaSet does, done by a PodSet, on a real API server with fake nodes.

#![expect(clippy::unwrap_used, reason = "clippy takes what tests share for code")]

#[path = "../harness/harness.rs"]
mod harness;

use std::sync::Arc;

use serde_json::{Value, json};
use testcluster::ControlPlane;

use harness::{Cluster, POD, PODSET, Shared};

static CLUSTER: Shared<Cluster> = Shared::new();

fn cluster() -> Arc<Cluster> {
    CLUSTER.get(|| Cluster::start(ControlPlane::builder().fake_nodes(3)).with_operator(&[]))
}

#[test]
fn smoke() {
    let space = cluster().namespace("smoke");
    space.create(PODSET, json!({"metadata": {"name": "web"}, "spec": {"replicas": 3}}));
    let set = space.until(PODSET, "web", "it is ready", |set| harness::ready(set).0 == "True");
    println!("{set:#}");
    space.delete(POD, "web-1");
    space.until(PODSET, "web", "scale", |set| harness::ready(set).0 == "True");
    println!("{:#?}", space.list(POD).iter().map(|p| p["metadata"]["name"].clone()).collect::<Vec<Value>>());
}
