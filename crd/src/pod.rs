//! The fields of pods, which AppDeploys and PodSets have in common.
//!
//! This is not a pod template, for security: with one, a user who may create an AppDeploy could use the operator's rights
//! for things that the user may not do, such as a host path, another ServiceAccount, a privileged container or a certain
//! node. A field may be added only if it does not allow that.

mod config_change;
mod containers;
mod env;
mod keys;
mod metrics;
mod placement;
mod ports;
mod probes;
mod resources;
mod service_account;
mod volumes;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::containers::{
    MOUNTED, MOUNTED_MESSAGE, MOUNTS, MOUNTS_MESSAGE, NAMES, NAMES_MESSAGE, WRITES, WRITES_MESSAGE,
};
pub use self::containers::{Mount, OtherContainer, Sidecar};
pub use self::metrics::Metrics;
pub use self::placement::{Placement, TaintEffect, Toleration, TolerationOperator};
pub use self::resources::Resources;
pub use self::service_account::ServiceAccount;
pub use self::volumes::{
    ConfigMapVolume, EmptyDirMedium, EmptyDirVolume, ImageVolume, KeyToPath, SecretVolume, Volume,
};
use crate::QueueReference;

pub use config_change::{ConfigMapStatus, OnConfigChange};
pub use env::{EnvFromReference, EnvFromSource, EnvVarSource, FieldPath, FieldRef};
pub use ports::{NamedPort, PortProtocol};
pub use probes::{ExecAction, GrpcAction, HttpGetAction, HttpHeader, HttpScheme, Probe, Probes, TcpSocketAction};

/// The fields of the container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerFields {
    /// The container image to run, such as `nginx`, `ghcr.io/acme/shop:1.4` or one pinned by digest. An image without a tag
    /// is pulled as `:latest`. Required.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = ("self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')", "an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4")
    )]
    pub image: String,

    /// The TCP port that the application listens on. The Service has the same port. Default: none; the application is then
    /// a worker, with pods but without a Service and an Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// Ports in addition to `port`, which has the name `http`. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(
        merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]),
        validation = ("self.all(one, self.filter(other, other.port == one.port && (has(other.protocol) ? other.protocol : 'TCP') == (has(one.protocol) ? one.protocol : 'TCP')).size() == 1)", "two ports have the same number and protocol; remove one of them")
    )]
    pub ports: Vec<NamedPort>,

    /// Environment variables. A variable may refer to an earlier one as `$(NAME)`. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,

    /// Environment variables from all keys of Secrets and ConfigMaps in the same namespace. Of several variables with the
    /// same name, the last one counts, and those of `env` and `queues` take precedence. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub env_from: Vec<EnvFromSource>,

    /// The command, which replaces the entrypoint of the image. It is not run in a shell. Default: the entrypoint of the
    /// image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 131_072)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub command: Vec<String>,

    /// The arguments of the command. Default: the arguments of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 131_072)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub args: Vec<String>,

    /// CPU and memory of each pod: what the scheduler reserves (`requests`) and the maximum that a pod may use (`limits`).
    /// Default: nothing is reserved or limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// The health check of the application, from which the readiness, liveness and startup probes are derived. Default: a
    /// pod is ready when its port accepts connections or, without a port, when it has run for some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,

    /// The probes, if a health check is not precise enough. Either `healthCheck` or `probes` can be set. Default: those of
    /// the health check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Box<Probes>>,

    /// When nodes pull the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
}

/// The fields of a pod: those of its container, and those of the pod as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodFields {
    /// The fields of the container.
    #[serde(flatten)]
    pub container: ContainerFields,

    /// Secrets in the same namespace with passwords for the registry of the image. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// AppQueues in the same namespace that the application uses. For a queue `orders` the environment variables
    /// `QUEUE_ORDERS_URL`, `QUEUE_ORDERS_REGION` and, if it is not a queue of Amazon SQS, `QUEUE_ORDERS_ENDPOINT` are set,
    /// unless `env` sets them. Pods start when the queue exists. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub queues: Vec<QueueReference>,

    /// The number of seconds that the application has to end. Then it is killed. Default 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,

    /// The number of seconds between the deletion of a pod and the SIGTERM to its application. In this time, which is part of
    /// the grace period, proxies and ingress controllers stop sending requests to the pod. Set it to `5` if requests are
    /// dropped in rollouts. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pre_stop_sleep_seconds: Option<i64>,

    /// The security settings of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_profile: Option<SecurityProfile>,

    /// Volumes, each with the directory where it is mounted in the container of the application. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(
        merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]),
        validation = ("self.all(volume, !has(volume.mountPath) || self.exists_one(other, has(other.mountPath) && other.mountPath == volume.mountPath))", "two volumes have the same mountPath; give each another directory")
    )]
    pub volumes: Vec<Volume>,

    /// Containers that run one after the other before the application starts, such as a migration. If one fails, it is
    /// started again, and the application waits. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub init_containers: Vec<OtherContainer>,

    /// Containers that run next to the application, such as a proxy. They start before the init containers and the
    /// application, one after the other, are restarted when they end, and are stopped after the application. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub sidecars: Vec<Sidecar>,

    /// The ServiceAccount of the pods, for a workload identity of a cloud or for the Kubernetes API. Default: the
    /// ServiceAccount `default` of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub service_account: Option<Box<ServiceAccount>>,

    /// Mounts a token of the ServiceAccount into the containers, for applications that call the Kubernetes API. Only with
    /// `serviceAccount`. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,

    /// What happens to the pods when a ConfigMap changes that they use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_config_change: Option<OnConfigChange>,

    /// The nodes on which the pods may run. Default: all nodes without taints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,

    /// Runs the pods in a user namespace if it is false: root in a container is then no root on the node. Nodes need
    /// Kubernetes 1.33, and a kernel and a container runtime that support it. Default: the users of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("!self", "hostUsers can only be false, for pods in a user namespace; remove it"))]
    pub host_users: Option<bool>,

    /// Lets Prometheus read the metrics of the application: by a PodMonitor, if the cluster serves its API, or by annotations
    /// of the Service. Only in an AppDeploy. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
}

impl PodFields {
    /// Returns the profile, or the default.
    #[must_use]
    pub fn profile(&self) -> SecurityProfile {
        self.security_profile.unwrap_or(SecurityProfile::Baseline)
    }

    /// Whether a change of a ConfigMap replaces the pods.
    #[must_use]
    pub fn restarts_on_config_change(&self) -> bool {
        self.on_config_change == Some(OnConfigChange::Restart)
    }

    /// Returns the containers next to that of the application in the order in which they start, each with the name of its
    /// list.
    pub fn other_containers(&self) -> impl Iterator<Item = (&'static str, &OtherContainer)> {
        let sidecars = self.sidecars.iter().map(|sidecar| ("sidecars", &sidecar.container));
        sidecars.chain(
            self.init_containers
                .iter()
                .map(|container| ("initContainers", container)),
        )
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
    /// The value. All users who may read the object can read it, so passwords should be in a Secret. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 131_072))]
    pub value: Option<String>,
    /// Where the value comes from: a key of a Secret or a ConfigMap in the same namespace, or a field of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub value_from: Option<EnvVarSource>,
}

/// One key of a Secret or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// The name of the Secret or ConfigMap, in the namespace of the application.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret or ConfigMap has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-db")
    )]
    pub name: String,
    /// The key.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// Starts the pod even if the object or the key is missing; the variable is then not set. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// An object in the same namespace.
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

/// The health check of the application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// An HTTP path that must answer with a status from 200 to 399. Default: the port must accept a TCP connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[!-~]*$"))]
    pub path: Option<String>,
    /// The port to check. Default: the port of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// The number of seconds between two checks. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub period_seconds: Option<i32>,
    /// The timeout of a check in seconds. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: Option<i32>,
    /// The number of seconds that the application may take to start before it is restarted. Default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub startup_seconds: Option<i32>,
}

/// When nodes pull the image: `Always`, `IfNotPresent` or `Never`. Default: `Always` for images with the tag `:latest` or
/// without a tag, otherwise `IfNotPresent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// At each start of a container.
    Always,
    /// Only if the node does not have the image.
    IfNotPresent,
    /// Never: the node must have the image.
    Never,
}

impl ImagePullPolicy {
    /// Returns the value, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// The security settings of the pods. `Baseline` forbids privilege escalation and uses the seccomp profile of the runtime.
/// `Restricted` also forbids running as root and drops all capabilities, as namespaces with the Pod Security Standard
/// `restricted` require; the image must have a user other than root. Default `Baseline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SecurityProfile {
    /// No privilege escalation, the seccomp profile of the runtime, no API token.
    Baseline,
    /// Like `Baseline`, and not as root and without capabilities.
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
