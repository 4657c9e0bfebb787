//! `PodSet`: a number of equal pods, kept by the operator itself.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Cause, ContainerFields, PodFields};

/// The pods that a person wants. The operator creates, updates and deletes them itself, as a ReplicaSet would.
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
    doc = "PodSet keeps a number of equal pods running, as a ReplicaSet does. It also updates the image of a pod in place, and replaces pods of choice by starting the new one first.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status", description = "Whether all pods are available and up to date: True, False or Unknown."),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.readyReplicas", description = "The number of pods that are ready."),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason", description = "Why it is or is not as wanted."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas", description = "The number of pods that are wanted.", priority = 1),
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

    /// What runs in each pod. Default: a busybox that sleeps.
    ///
    /// When nothing but the image changes, it is changed in the pods that run: they keep their name, node and
    /// address, and their containers restart. Any other change replaces the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = ("!has(self.healthCheck) || has(self.port) || has(self.healthCheck.port)", "a health check needs a port to ask: set spec.template.port or spec.template.healthCheck.port")
    )]
    pub template: Option<PodFields>,

    /// How long a pod must have been ready, and its container must have run, to count as available, in seconds. Without a
    /// port and a health check it is at least 3. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 3600))]
    pub min_ready_seconds: i32,

    /// How many pods may be unavailable at a time while a changed template is rolled out: a number, or a
    /// percentage of the replicas, rounded down and at least 1. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 4))]
    #[x_kube(
        validation = ("type(self) == int ? self >= 1 && self <= 1000 : self.matches('^([1-9]|[1-9][0-9]|100)%$')", "maxUnavailable is a number from 1 to 1000, or a percentage from 1% to 100%; write it like 2 or 25%")
    )]
    pub max_unavailable: Option<IntOrString>,

    /// Whether pods that run keep the template that they were made from until this is taken away. New pods are made from the
    /// current one. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,

    /// Pods to replace, one after the other: a new pod is started first, and when it is available the old one is deleted.
    /// An entry is done when its pod no longer exists; a new pod may then have the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub replace_pods: Vec<PodReference>,
}

/// One pod, and no later pod of the same name.
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

/// What runs without a template. On SIGTERM it ends immediately, which a bare `sleep` as the first process of a container
/// does not.
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
    /// Returns what runs in each pod, with the default if there is no template.
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

/// What the operator saw and did. Written by the operator alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSetStatus {
    /// The generation of the spec that this status is about. Older than `metadata.generation`: the operator
    /// has not seen the last change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The restart that this status is about: what the annotation `appdeploy.dev/restarted-at` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// The number of pods that are there, without those that are ending or have ended.
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
    /// The number of pods that are ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The names of the first 100 pods, sorted. `replicas` counts all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub pod_names: Vec<String>,
    /// The pods' label selector, for `kubectl scale` and a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Why the pods are not as wanted, and what to do about it. Absent when they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// `Ready` (Unknown while the operator cannot see the current state), and, only while they are true, `Reconciling` (not
    /// ready, and may become so without a change of the spec), `Stalled` (does not become ready without a change) and
    /// `ReplicaFailure` (a pod could not be created or deleted).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::status::conditions_schema")]
    pub conditions: Vec<Condition>,
}
