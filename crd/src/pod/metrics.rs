//! Where the metrics of an application are.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The port and the path at which Prometheus reads the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// The port. If it is neither `port` nor one of `ports`, it is added to the container with the name `metrics`, and is not
    /// a port of the Service. Default: `port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The HTTP path. Default `/metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = ("self.matches('^/[!-~]*$')", "a path starts with '/' and has no spaces; write it like /metrics"))]
    pub path: Option<String>,
}
