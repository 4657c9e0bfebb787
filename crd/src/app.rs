//! The `AppDeploy` resource: one application.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod::{MOUNTED, MOUNTED_MESSAGE, MOUNTS, MOUNTS_MESSAGE, NAMES, NAMES_MESSAGE, WRITES, WRITES_MESSAGE};
use crate::{AppDeployStatus, PodFields, RolloutStrategy};

/// The desired state of the application.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "appdeploy.dev",
    version = "v1alpha1",
    kind = "AppDeploy",
    plural = "appdeploys",
    singular = "appdeploy",
    shortname = "ad",
    namespaced,
    status = "AppDeployStatus",
    derive = "PartialEq",
    derive = "Default",
    label("app.kubernetes.io/part-of", "appdeploy"),
    doc = "AppDeploy runs a container image as an application. The operator creates a Deployment, a Service and an Ingress with the same name, and reports in the status why the application does not work.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status", description = "Whether all pods of the application are available: True, False or Unknown."),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.readyReplicas", description = "The number of pods that are ready."),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason", description = "The reason for the value of Ready."),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url", description = "The URL of the application."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas", description = "The desired number of pods.", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1),
    validation = ("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", "the name becomes a host and a Service: use lower-case letters, digits and '-', start with a letter and end with a letter or digit, like my-shop"),
    validation = ("size(self.metadata.name) <= 53", "the name is too long for what is derived from it: use at most 53 characters")
)]
#[cfg_attr(feature = "cel", kube(cel))]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.port) || !(has(self.host) || has(self.path) || has(self.ingressClassName) || has(self.tls))", "host, path, ingressClassName and tls need a port to lead to: set spec.port, or remove them"),
    validation = ("!has(self.expose) || self.expose == 'Public' || !(has(self.host) || has(self.path) || has(self.ingressClassName) || has(self.tls))", "host, path, ingressClassName and tls publish the application: set spec.expose to Public, or remove them"),
    validation = ("!has(self.healthCheck) || has(self.port) || has(self.healthCheck.port)", "a health check needs a port to ask: set spec.port or spec.healthCheck.port"),
    validation = ("!has(self.healthCheck) || !has(self.probes)", "healthCheck is the short form of probes: remove one of them"),
    validation = ("!has(self.preStopSleepSeconds) || self.preStopSleepSeconds < (has(self.terminationGracePeriodSeconds) ? self.terminationGracePeriodSeconds : 30)", "preStopSleepSeconds must be smaller than terminationGracePeriodSeconds (default 30), or the application is killed before it can end; lower it, or raise the grace period"),
    validation = ("!has(self.automountServiceAccountToken) || !self.automountServiceAccountToken || has(self.serviceAccount)", "automountServiceAccountToken needs a ServiceAccount: set spec.serviceAccount, or remove it"),
    validation = (NAMES, NAMES_MESSAGE),
    validation = (MOUNTS, MOUNTS_MESSAGE),
    validation = (WRITES, WRITES_MESSAGE),
    validation = (MOUNTED, MOUNTED_MESSAGE),
    validation = ("!has(self.metrics) || has(self.metrics.port) || has(self.port)", "metrics need a port to read: set spec.metrics.port or spec.port"),
    validation = ("!has(self.metrics) || !has(self.metrics.port) || !has(self.ports) || self.ports.all(port, port.name != 'metrics' || port.port == self.metrics.port) || has(self.port) && self.port == self.metrics.port || self.ports.exists(port, port.port == self.metrics.port && (!has(port.protocol) || port.protocol == 'TCP'))", "metrics.port has the name metrics, which one of ports has: set spec.metrics.port to that port, or rename it"),
    validation = ("!has(self.ports) || size(self.ports) == 0 || has(self.port) && self.ports.all(port, port.port != self.port || has(port.protocol) && port.protocol != 'TCP')", "ports are in addition to port: set port to the main one, and list only others")
)]
pub struct AppDeploySpec {
    /// The container and the settings of each pod.
    #[serde(flatten)]
    pub pod: PodFields,

    /// The number of pods. 0 stops the application and keeps its Service and Ingress. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,

    /// Pauses the rollout of changes to the pods. Changes of `replicas` and of the Service and the Ingress still take effect
    /// immediately. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// How changed pods are rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Box<RolloutStrategy>>,

    /// Where the application can be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<Expose>,

    /// The host name of the Ingress. Default `<name>.<namespace>`, which is unique in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("!self.contains('*')", "a wildcard host would take the hosts of others; name one host, like shop.example.com"),
        validation = ("self.contains('*') || self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')", "a host is lower-case letters, digits, '-' and '.', without scheme, port or path; write it like shop.example.com"),
        validation = ("!self.matches('^[0-9.]+$')", "an Ingress has no IP address for a host; write a name like shop.example.com")
    )]
    pub host: Option<String>,

    /// The path prefix of the Ingress. The application receives the full path of a request. Default `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(
        validation = ("self.matches('^/[A-Za-z0-9/._~-]*$')", "a path starts with '/' and has letters, digits and . _ ~ - /; write it like /shop"),
        validation = ("!self.contains('//') && !self.matches('/[.][.]?(/|$)')", "a path has no empty part, no '.' and no '..'; write it like /shop")
    )]
    pub path: Option<String>,

    /// The name of the IngressClass. Default: the default IngressClass of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "an IngressClass is named in lower-case letters, digits, '-' and '.'; see kubectl get ingressclass")
    )]
    pub ingress_class_name: Option<String>,

    /// Serves the host over HTTPS. Default: HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub tls: Option<Tls>,
}

const fn one() -> i32 {
    1
}

impl Default for AppDeploySpec {
    fn default() -> Self {
        Self {
            pod: PodFields::default(),
            replicas: one(),
            paused: false,
            rollout: None,
            expose: None,
            host: None,
            path: None,
            ingress_class_name: None,
            tls: None,
        }
    }
}

impl AppDeploySpec {
    /// Whether the application can be reached from outside the cluster: it has a port, and `expose` is not `Cluster`.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.pod.container.port.is_some() && self.expose != Some(Expose::Cluster)
    }
}

/// Where the application can be reached: with `Public` through an Ingress under `host`, with `Cluster` only from inside the
/// cluster. Default `Public` if `port` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Expose {
    /// Through an Ingress, from outside the cluster.
    Public,
    /// Through its Service only, from inside the cluster.
    Cluster,
}

/// The TLS certificate of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.secretName)", "tls needs a certificate: set spec.tls.secretName to a Secret of type kubernetes.io/tls, or remove spec.tls"))]
pub struct Tls {
    /// The name of a Secret of type `kubernetes.io/tls` in the same namespace, with the certificate and its key. Required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-tls")
    )]
    pub secret_name: Option<String>,
}
