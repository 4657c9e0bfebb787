//! The ports of a container in addition to the main one.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A port of the container and of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedPort {
    /// The name of the port.
    #[schemars(length(min = 1, max = 15))]
    #[x_kube(
        validation = ("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && !self.contains('--')", "the name of a port has lower-case letters, digits and single '-', and starts with a letter; write it like metrics"),
        validation = ("self != 'http'", "spec.port has the name http; choose another name, like admin")
    )]
    pub name: String,
    /// The number of the port, in the container and in the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// The protocol: `TCP`, `UDP` or `SCTP`. Default `TCP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortProtocol>,
    /// The protocol above it, as a hint for proxies, such as `kubernetes.io/h2c`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = ("self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')", "an appProtocol has letters, digits, '-', '_' and '.', and a domain for its own names; write it like grpc or kubernetes.io/h2c")
    )]
    pub app_protocol: Option<String>,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PortProtocol {
    /// TCP.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// UDP.
    #[serde(rename = "UDP")]
    Udp,
    /// SCTP.
    #[serde(rename = "SCTP")]
    Sctp,
}

impl PortProtocol {
    /// All protocols.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Returns the value, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl NamedPort {
    /// Returns the protocol, or the default.
    #[must_use]
    pub fn protocol(&self) -> PortProtocol {
        self.protocol.unwrap_or_default()
    }
}
