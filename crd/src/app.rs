//! `AppDeploy`: one application, as one object.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AppDeployStatus, PodFields};

/// The application that a person wants. The operator keeps a Deployment, a Service and an Ingress for it.
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
    doc = "AppDeploy runs one container image as an application: the operator keeps a Deployment, a Service and an Ingress of the same name for it, and says in the status why it does not work when it does not.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status", description = "Whether the application serves with all its pods: True, False or Unknown."),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.readyReplicas", description = "The number of pods that are ready."),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason", description = "Why it is or is not ready."),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url", description = "Where the application answers."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas", description = "The number of pods that are wanted.", priority = 1),
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
    validation = ("!has(self.healthCheck) || has(self.port) || has(self.healthCheck.port)", "a health check needs a port to ask: set spec.port or spec.healthCheck.port")
)]
pub struct AppDeploySpec {
    /// What runs in each pod.
    #[serde(flatten)]
    pub pod: PodFields,

    /// The number of pods. 0 stops the application and keeps everything else. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,

    /// Whether changes of the pods wait to be rolled out until this is taken away. The number of pods and the way to them
    /// still change at once. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// Where the application is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<Expose>,

    /// The host name under which the Ingress answers. Default `<name>.<namespace>`, which no two
    /// applications share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("!self.contains('*')", "a wildcard host would take the hosts of others; name one host, like shop.example.com"),
        validation = ("self.contains('*') || self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')", "a host is lower-case letters, digits, '-' and '.', without scheme, port or path; write it like shop.example.com"),
        validation = ("!self.matches('^[0-9.]+$')", "an Ingress has no IP address for a host; write a name like shop.example.com")
    )]
    pub host: Option<String>,

    /// The path below which the application answers, `/` by default. The application receives the path as
    /// the client sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(
        validation = ("self.matches('^/[A-Za-z0-9/._~-]*$')", "a path starts with '/' and has letters, digits and . _ ~ - /; write it like /shop"),
        validation = ("!self.contains('//') && !self.matches('/[.][.]?(/|$)')", "a path has no empty part, no '.' and no '..'; write it like /shop")
    )]
    pub path: Option<String>,

    /// The IngressClass to use. Default: the cluster's default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "an IngressClass is named in lower-case letters, digits, '-' and '.'; see kubectl get ingressclass")
    )]
    pub ingress_class_name: Option<String>,

    /// Serves the host over HTTPS.
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
            expose: None,
            host: None,
            path: None,
            ingress_class_name: None,
            tls: None,
        }
    }
}

impl AppDeploySpec {
    /// Whether the application is published outside the cluster: it has a port, and `expose` does not keep it inside.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.pod.container.port.is_some() && self.expose != Some(Expose::Cluster)
    }
}

/// Where the application is reached: `Public` publishes it under `host`, `Cluster` keeps it inside the cluster. Default
/// `Public` if there is a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Expose {
    /// Through an Ingress, from outside the cluster.
    Public,
    /// Through its Service only, from inside the cluster.
    Cluster,
}

/// The certificate of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.secretName)", "tls needs a certificate: set spec.tls.secretName to a Secret of type kubernetes.io/tls, or remove spec.tls"))]
pub struct Tls {
    /// The Secret (type `kubernetes.io/tls`) of the same namespace with the certificate and its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-tls")
    )]
    pub secret_name: Option<String>,
}
