//! The PodMonitor of an app with metrics: a Prometheus of the Prometheus Operator reads them where it says.

use serde_json::{Value, json};

use super::{Api, ChildKind};
use crate::Valid;
use crate::desired::ports::metrics;
use crate::desired::{finish, meta, selector};

/// The PodMonitor of an app with metrics. In a cluster without its API, the Service has annotations instead.
pub static POD_MONITOR: ChildKind = ChildKind {
    api: Api::Optional,
    on_request: true,
    ..ChildKind::new(["monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"], render)
};

fn render(app: &Valid<'_>) -> Vec<Value> {
    let Some(metrics) = metrics(app.pod) else {
        return Vec::new();
    };
    let spec = json!({
        "selector": {"matchLabels": selector(&app.name)},
        "podMetricsEndpoints": [{"port": metrics.port.name, "path": metrics.path}],
    });
    vec![finish(&POD_MONITOR, &json!({"metadata": meta(app), "spec": spec}))]
}
