//! What can be seen of the operator from outside: its metrics, its log, its traces.

mod collector;
mod logs;
mod metrics;
mod traces;

use std::sync::Arc;

use testcluster::ControlPlane;

use crate::harness::{Cluster, Shared};

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(ControlPlane::builder()))
}
