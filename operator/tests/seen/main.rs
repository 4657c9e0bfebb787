//! What can be seen of the operator from outside: its metrics, its log, its traces.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes what tests share for code"
)]

#[path = "../harness/harness.rs"]
mod harness;

mod collector;
mod logs;
mod metrics;
mod traces;

use std::sync::Arc;

use testcluster::ControlPlane;

use harness::{Cluster, Shared};

fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| Cluster::start(ControlPlane::builder()))
}
