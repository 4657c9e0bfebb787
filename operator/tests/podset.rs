//! What a ReplicaSet does, done by a PodSet, on a real API server.
//!
//! Each test names the rows that it shows, of what the controller of ReplicaSets does
//! (`pkg/controller/replicaset` and `pkg/controller/controller_ref_manager.go` of Kubernetes):
//!
//! | Row | |
//! |---|---|
//! | 1 | it acts on nothing older than what it wrote itself |
//! | 2 | nothing that is remembered of a set outlives it, or is missed after a crash |
//! | 3 | creates start slowly: one that fails is one, not a hundred |
//! | 4 | no requests in a terminating namespace, and no Event |
//! | 5 | a set is re-read before it adopts |
//! | 6 | a pod is adopted by its label, and released when it loses it |
//! | 7 | what another controller owns is not touched |
//! | 8 | a pod that ends or has ended does not count |
//! | 9 | a pod that is seen for the first time when it is being deleted was deleted |
//! | 10 | a pod that changes hands wakes both sets |
//! | 11 | which pods go first |
//! | 12 | a set that is being deleted creates and deletes nothing, and its status is kept |
//! | 13 | a status is written if it differs |
//! | 14 | what keeps pods from being created or deleted is a condition |
//! | 15 | a pod becomes available by the clock alone |
//! | 18 | what no watch reports is found by the next list |
//!
//! Rows that an API server that lies can show are in `lies/podset.rs`; decisions alone are tested where they are
//! made, in `model`.

mod creation;
mod ended;
mod membership;
mod names;
mod order;
mod refusals;
mod replace;
mod replicaset;
mod requests;
mod rollout;
mod schema;
mod shares;
mod statefulset;
mod status;
mod strangers;
mod teardown;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::audit::Requests;

use crate::harness::{Cluster, Namespace, Operator, Shared};

/// The clusters, made when a test first needs them, and kept for as long as any test runs.
#[derive(Default)]
struct Clusters {
    with_nodes: OnceLock<Arc<Cluster>>,
    bare: OnceLock<Arc<Cluster>>,
}

/// A test's namespace.
struct Space {
    namespace: Namespace,
    _clusters: Arc<Clusters>,
}

impl Deref for Space {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

fn space(name: &str, choose: impl FnOnce(&Clusters) -> &Arc<Cluster>) -> Space {
    static SHARED: Shared<Clusters> = Shared::new();
    let clusters = SHARED.get(Clusters::default);
    Space {
        namespace: choose(&clusters).namespace(name),
        _clusters: clusters,
    }
}

/// Makes a namespace in a cluster with nodes, whose pods run as soon as they are made, and with an operator for all.
fn with_nodes(name: &str) -> Space {
    let start = || {
        let builder = ControlPlane::builder()
            .fake_nodes(3)
            .controller_manager(&["horizontalpodautoscaling"])
            // On by default in OpenShift; an owner reference that blocks needs a right of its own.
            .apiserver_flag("--enable-admission-plugins=OwnerReferencesPermissionEnforcement");
        Arc::new(Cluster::start(builder).with_operator(&[]))
    };
    space(name, |clusters| clusters.with_nodes.get_or_init(start))
}

/// Makes a namespace in a cluster without nodes, controllers and operator: pods stay as they are, and go as soon as they
/// are deleted.
fn bare(name: &str) -> Space {
    let start = || Arc::new(Cluster::start(ControlPlane::builder()));
    space(name, |clusters| clusters.bare.get_or_init(start))
}

/// As [`bare`], with an operator for this namespace alone.
fn without_nodes(name: &str) -> (Operator, Space) {
    let space = bare(name);
    (operator_of(&space), space)
}

/// Starts an operator for one namespace alone, and waits until it is ready.
fn operator_of(space: &Namespace) -> Operator {
    space.cluster.operator(&["--watch-namespace", &space.name])
}

/// Keeps the requests for pods that were to change one.
fn pod_writes(asked: Requests) -> Requests {
    asked.on("pods").writes()
}

/// Keeps the creates of pods.
fn pod_creates(asked: Requests) -> Requests {
    asked.on("pods").that(|request| request.verb == "create")
}

/// A pod that no operator made.
fn stray(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}})
}
