//! The `PodSet` resource: a number of identical pods, which the operator manages directly.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod::{MOUNTED, MOUNTED_MESSAGE, MOUNTS, MOUNTS_MESSAGE, NAMES, NAMES_MESSAGE, WRITES, WRITES_MESSAGE};
use crate::{Cause, ConfigMapStatus, ContainerFields, PodFields};

/// The desired state of the pods.
#[derive(Clone, Debug, PartialEq, CustomResource, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "appdeploy.dev",
    version = "v1alpha1",
    kind = "PodSet",
    plural = "podsets",
    singular = "podset",
    shortname = "pset",
    namespaced,
    status = "PodSetStatus",
    derive = "PartialEq",
    derive = "Default",
    label("app.kubernetes.io/part-of", "appdeploy"),
    doc = "PodSet runs a number of identical pods, like a ReplicaSet. In addition, it changes the image of pods in place, and replaces chosen pods after it has started new ones.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status", description = "Whether all pods are available and up to date: True, False or Unknown."),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.readyReplicas", description = "The number of pods that are ready."),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason", description = "The reason for the value of Ready."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas", description = "The desired number of pods.", priority = 1),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas", description = "The number of pods that exist.", priority = 1),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.image", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1),
    validation = ("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", "the name becomes part of the names of pods: use lower-case letters, digits and '-', start with a letter and end with a letter or digit, like my-workers"),
    validation = ("size(self.metadata.name) <= 53", "the name is too long for what is derived from it: use at most 53 characters")
)]
#[cfg_attr(feature = "cel", kube(cel))]
#[serde(rename_all = "camelCase")]
pub struct PodSetSpec {
    /// The number of pods. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,

    /// The container and the settings of each pod. Default: a busybox that sleeps.
    ///
    /// If only the image changes, it is changed in the running pods: they keep their name, node and address, and their
    /// containers restart. Any other change replaces the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = ("!has(self.healthCheck) || has(self.port) || has(self.healthCheck.port)", "a health check needs a port to ask: set spec.template.port or spec.template.healthCheck.port"),
        validation = ("!has(self.healthCheck) || !has(self.probes)", "healthCheck is the short form of probes: remove one of them"),
        validation = ("!has(self.preStopSleepSeconds) || self.preStopSleepSeconds < (has(self.terminationGracePeriodSeconds) ? self.terminationGracePeriodSeconds : 30)", "preStopSleepSeconds must be smaller than terminationGracePeriodSeconds (default 30), or the application is killed before it can end; lower it, or raise the grace period"),
        validation = ("!has(self.automountServiceAccountToken) || !self.automountServiceAccountToken || has(self.serviceAccount)", "automountServiceAccountToken needs a ServiceAccount: set spec.template.serviceAccount.name, or remove it"),
        validation = (NAMES, NAMES_MESSAGE),
        validation = (MOUNTS, MOUNTS_MESSAGE),
        validation = (WRITES, WRITES_MESSAGE),
        validation = (MOUNTED, MOUNTED_MESSAGE),
        validation = ("!has(self.serviceAccount) || !has(self.serviceAccount.annotations)", "a PodSet has only pods, and no ServiceAccount of its own: set spec.template.serviceAccount.name"),
        validation = ("!has(self.metrics)", "a PodSet has no PodMonitor and no Service: remove spec.template.metrics"),
        validation = ("!has(self.ports) || size(self.ports) == 0 || has(self.port) && self.ports.all(port, port.port != self.port || has(port.protocol) && port.protocol != 'TCP')", "ports are in addition to port: set port to the main one, and list only others")
    )]
    pub template: Option<PodFields>,

    /// How long a pod must have been ready, and its container must have run, to count as available, in seconds. At least 3
    /// for pods without a port and a health check. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3600))]
    pub min_ready_seconds: i32,

    /// The maximum number of pods that may be unavailable during a rollout: a number, or a percentage of the replicas,
    /// which is rounded down and at least 1. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 4))]
    #[x_kube(
        validation = ("type(self) == int ? self >= 1 && self <= 1000 : self.matches('^([1-9]|[1-9][0-9]|100)%$')", "maxUnavailable is a number from 1 to 1000, or a percentage from 1% to 100%; write it like 2 or 25%")
    )]
    pub max_unavailable: Option<IntOrString>,

    /// Pauses the rollout of a changed template: existing pods keep their template, and new pods get the current one.
    /// Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// Pods to replace, one after the other: a new pod is created, and when it is available, the old one is deleted. An
    /// entry has no effect after its pod was deleted, even if a new pod has the same name. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub replace_pods: Vec<PodReference>,
}

/// Refers to a pod, but not to a later pod with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodReference {
    /// The name of the pod.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    /// The UID of the pod, as in its `metadata.uid`.
    #[schemars(length(min = 1, max = 128))]
    pub uid: String,
}

const fn one() -> i32 {
    1
}

/// The default template. It ends immediately on SIGTERM, unlike `sleep` as the first process of a container.
static SLEEPER: LazyLock<PodFields> = LazyLock::new(|| PodFields {
    container: ContainerFields {
        image: "busybox".into(),
        command: ["sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]
            .map(String::from)
            .into(),
        ..ContainerFields::default()
    },
    ..PodFields::default()
});

impl PodSetSpec {
    /// Returns the fields of the pods, or the default.
    #[must_use]
    pub fn pod(&self) -> &PodFields {
        self.template.as_ref().unwrap_or(&SLEEPER)
    }
}

impl Default for PodSetSpec {
    fn default() -> Self {
        Self {
            replicas: one(),
            template: None,
            min_ready_seconds: 0,
            max_unavailable: None,
            paused: false,
            replace_pods: Vec::new(),
        }
    }
}

/// The observed state. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetStatus {
    /// The generation of the spec that this status is about. If it is older than `metadata.generation`, the operator has
    /// not processed the last change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The value of the annotation `appdeploy.dev/restarted-at` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// The number of pods, without those that are terminating or have finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The number of pods that have been ready for `spec.minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// The number of pods that run the current template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The number of terminating pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The names of the first 100 pods, sorted. `replicas` counts all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub pod_names: Vec<String>,
    /// The label selector of the pods, for `kubectl scale` and a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Why the pods are not as desired, and what to do about it. Not set if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// `Ready` (Unknown if the operator does not know the current state), and, only while they are true, `Reconciling` (not
    /// ready, but may become ready without a change of the spec), `Stalled` (does not become ready without a change) and
    /// `ReplicaFailure` (a pod could not be created or deleted).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::status::conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The ConfigMaps that the pods use, if `onConfigChange` is `Restart`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub config_maps: Vec<ConfigMapStatus>,
    /// The hash of these ConfigMaps when the content of one of them last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub config_hash: Option<String>,
}
