//! What a person may say about the pods: the same fields for every kind that makes pods.
//!
//! This is on purpose not a pod template. Whoever may create one of our kinds could otherwise reach through
//! the operator's rights what they may not do themselves: a host path, another ServiceAccount, a privileged
//! container, a node of choice. A field is added here only if it gives nothing of the kind.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// What runs in a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFields {
    /// The container image to run, such as `nginx`, `ghcr.io/acme/shop:1.4` or one pinned by digest.
    /// It is passed on as written: an image without a tag is pulled as `:latest`.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = ("self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')", "an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4")
    )]
    pub image: String,

    /// The TCP port that the application listens on. The Service offers the same port. Without one the
    /// application is a worker: it gets pods, but no Service and no Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// Environment variables, in order. A variable may refer to an earlier one as `$(NAME)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,

    /// Replaces the image's entrypoint. Not run in a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 131_072)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub command: Vec<String>,

    /// Replaces the image's default arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 131_072)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub args: Vec<String>,

    /// CPU and memory for each pod: what the scheduler reserves (`requests`) and what a pod may use at most
    /// (`limits`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// How to see that the application works. Readiness, liveness and start-up are derived from it. Without
    /// one, a pod is ready when its port accepts connections, or, without a port, when it has run for some
    /// seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,

    /// When to pull the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
}

/// What runs in each pod: one container, and what concerns the pod as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodFields {
    /// The container.
    #[serde(flatten)]
    pub container: ContainerFields,

    /// Secrets of the same namespace with the password for the image's registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// How much the pods are confined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,
}

impl PodFields {
    /// Returns the profile, with the default if none is set.
    #[must_use]
    pub fn profile(&self) -> SecurityProfile {
        self.security_profile.unwrap_or(SecurityProfile::Baseline)
    }
}

/// One environment variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!(has(self.value) && has(self.valueFrom))", "a variable has either value or valueFrom; remove one of them")
)]
pub struct EnvVar {
    /// The name of the variable.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$')", "a variable's name has letters, digits, '_', '-' or '.', and starts with no digit; write it like DATABASE_URL")
    )]
    pub name: String,
    /// The value as it stands. Anyone who may read the object reads it: put passwords into a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 131_072))]
    pub value: Option<String>,
    /// Takes the value from a Secret or a ConfigMap of the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub value_from: Option<EnvVarSource>,
}

/// Where the value of a variable comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.secretKeyRef) != has(self.configMapKeyRef)", "valueFrom needs exactly one of secretKeyRef and configMapKeyRef")
)]
pub struct EnvVarSource {
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub secret_key_ref: Option<KeyRef>,
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub config_map_key_ref: Option<KeyRef>,
}

/// One key of a Secret or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// The name of the Secret or ConfigMap, in the application's own namespace.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret or ConfigMap has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-db")
    )]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// Start the pod even if the object or the key is missing; the variable is then not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectReference {
    /// The name of the object.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like registry-password")
    )]
    pub name: String,
}

/// Compute resources, in Kubernetes' own shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("(!has(self.requests) || self.requests.all(name, name in ['cpu', 'memory', 'ephemeral-storage'] || name.startsWith('hugepages-') || name.contains('/'))) && (!has(self.limits) || self.limits.all(name, name in ['cpu', 'memory', 'ephemeral-storage'] || name.startsWith('hugepages-') || name.contains('/')))", "unknown resource: use cpu, memory, ephemeral-storage, or a name with a domain, like example.com/gpu"),
    validation = ("!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits) || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)", "a request is above its limit; raise the limit or lower the request")
)]
pub struct Resources {
    /// What the scheduler reserves for each pod, such as `cpu: 100m` and `memory: 64Mi`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = ("self.all(name, size(name) <= 317)", "the name of a resource has at most 317 characters"))]
    pub requests: BTreeMap<String, Quantity>,
    /// What each pod may use at most. Over the memory limit the container is killed, over the CPU limit it
    /// is slowed down.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(validation = ("self.all(name, size(name) <= 317)", "the name of a resource has at most 317 characters"))]
    pub limits: BTreeMap<String, Quantity>,
}

/// How to see that the application works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// An HTTP path that answers with a status from 200 to 399. Without one, it is enough that the port
    /// accepts a TCP connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[!-~]*$"))]
    pub path: Option<String>,
    /// The port to ask, if it is not `spec.port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Seconds between two checks. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub period_seconds: Option<i32>,
    /// Seconds until an answer is late. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: Option<i32>,
    /// Seconds that the application may take to start before it is restarted. Default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub startup_seconds: Option<i32>,
}

/// When to pull the image: `Always`, `IfNotPresent` or `Never`. Without it Kubernetes' own default applies:
/// `Always` for `:latest` or no tag, else `IfNotPresent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Ask the registry at every start of a container.
    Always,
    /// Ask only when the node does not have the image.
    IfNotPresent,
    /// Never ask: the node must have the image.
    Never,
}

impl ImagePullPolicy {
    /// Returns the word that Kubernetes uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// How much the pods are confined. `Baseline` forbids privilege escalation and uses the runtime's seccomp profile. `Restricted`
/// also refuses to run as root and drops all capabilities, as namespaces that enforce the restricted Pod Security Standard
/// demand; the image must then name a user other than root. Default `Baseline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SecurityProfile {
    /// No privilege escalation, the runtime's seccomp profile, no API token.
    Baseline,
    /// Like `Baseline`, and in addition not as root and without capabilities.
    Restricted,
}

impl SecurityProfile {
    /// Returns the value of the field.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "Baseline",
            Self::Restricted => "Restricted",
        }
    }
}
