//! The probes of a container, as in Kubernetes. A probe can't name a host: the kubelet would send its requests from the
//! network of the node.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The probes of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probes {
    /// Whether the pod gets requests. Default: the port must accept connections; without a port, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        merge_strategy = kube::core::MapMerge::Atomic,
        validation = ("!has(self.terminationGracePeriodSeconds)", "a readiness probe restarts no container; remove its terminationGracePeriodSeconds")
    )]
    pub readiness: Option<Probe>,
    /// Whether the container is restarted. Default: none; a container is restarted when its program ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        merge_strategy = kube::core::MapMerge::Atomic,
        validation = ("!has(self.successThreshold) || self.successThreshold == 1", "the successThreshold of a liveness or startup probe can only be 1; remove it")
    )]
    pub liveness: Option<Probe>,
    /// Whether the application has started. Before that, there are no other probes. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        merge_strategy = kube::core::MapMerge::Atomic,
        validation = ("!has(self.successThreshold) || self.successThreshold == 1", "the successThreshold of a liveness or startup probe can only be 1; remove it")
    )]
    pub startup: Option<Probe>,
}

/// A probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].filter(is_set, is_set).size() == 1", "a probe needs exactly one of httpGet, tcpSocket, grpc and exec")
)]
pub struct Probe {
    /// An HTTP request that must be answered with a status from 200 to 399.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// A port that must accept a TCP connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// A request of the gRPC health checking protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAction>,
    /// A command in the container that must end with the exit code 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// The number of seconds between the start of the container and the first check. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub initial_delay_seconds: Option<i32>,
    /// The number of seconds between two checks. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub period_seconds: Option<i32>,
    /// The timeout of a check in seconds. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
    /// The number of successful checks in a row after which a failed probe succeeds again. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub success_threshold: Option<i32>,
    /// The number of failed checks in a row after which the probe fails. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub failure_threshold: Option<i32>,
    /// The number of seconds that the application has to end after the probe failed. Default: that of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub termination_grace_period_seconds: Option<i64>,
}

/// An HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// The path. Default `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = ("self.matches('^/[!-~]*$')", "a path starts with '/' and has no spaces; write it like /healthz"))]
    pub path: Option<String>,
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// `HTTP`, or `HTTPS`, for which the certificate is not verified. Default `HTTP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<HttpScheme>,
    /// Headers of the request. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub http_headers: Vec<HttpHeader>,
}

/// The protocol of an HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpScheme {
    /// HTTP.
    #[serde(rename = "HTTP")]
    Http,
    /// HTTPS.
    #[serde(rename = "HTTPS")]
    Https,
}

/// A header of an HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// The name.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = ("self.matches('^[-A-Za-z0-9]+$')", "the name of a header has letters, digits and '-'; write it like X-Probe"))]
    pub name: String,
    /// The value. All users who may read the object can read it.
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// A TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpSocketAction {
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// A request of the gRPC health checking protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcAction {
    /// The port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// The name of the service in the request. Default: none, which asks about the server as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub service: Option<String>,
}

/// A command in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecAction {
    /// The command and its arguments. It is not run in a shell.
    #[schemars(length(min = 1, max = 64), inner(length(max = 16_384)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub command: Vec<String>,
}

impl Probes {
    /// Returns the probes with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Probe)> {
        let all = [
            ("readiness", &self.readiness),
            ("liveness", &self.liveness),
            ("startup", &self.startup),
        ];
        all.into_iter()
            .filter_map(|(name, probe)| Some((name, probe.as_ref()?)))
    }
}

impl Probe {
    /// Returns the port that is checked.
    #[must_use]
    pub fn port(&self) -> Option<i32> {
        let http = self.http_get.as_ref().map(|http| http.port);
        let tcp = || self.tcp_socket.as_ref().map(|tcp| tcp.port);
        let grpc = || self.grpc.as_ref().map(|grpc| grpc.port);
        http.or_else(tcp).or_else(grpc)
    }
}
