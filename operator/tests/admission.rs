//! What the operator says before an object is stored, asked by a real API server: section D of what an operator has to
//! survive. How its certificates and its server behave is tested in `webhook`.

mod again;
mod away;
mod before;
mod certificate;
mod deletion;
mod early;
mod forged;
mod given;
mod people;
mod same;
mod told;

use std::sync::Arc;

use testcluster::ControlPlane;

use crate::harness::{Cluster, Operator, Shared, Webhooks};

/// A control plane that asks an operator.
struct Asking {
    // Dropped first, while its control plane runs.
    _operator: Operator,
    cluster: Arc<Cluster>,
}

/// Returns the one that is shared by tests that do not affect others.
fn asking() -> Arc<Asking> {
    static SHARED: Shared<Asking> = Shared::new();
    SHARED.get(|| {
        let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
        let webhooks = Webhooks::install(&cluster);
        let operator = webhooks.operator(&cluster, &["--allowed-host-suffix", "example.com"]);
        Asking {
            _operator: operator,
            cluster,
        }
    })
}
