//! What the operator says about an application.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::ConfigMapStatus;

/// The observed state. Only the operator writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppDeployStatus {
    /// The generation of the spec that this status is about. If it is older than `metadata.generation`, the operator has
    /// not processed the last change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The value of the annotation `appdeploy.dev/restarted-at` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// The number of pods that exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The number of pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The number of pods that run the current spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The label selector of the pods, for `kubectl scale` and a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The URL of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The addresses of the URL: those of the load balancer, or of the Service if there is no Ingress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub addresses: Vec<Address>,
    /// Why the application does not work, and what to do about it. Not set if it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// `Ready` (Unknown if the operator does not know the current state), and, only while they are true, `Reconciling` (not
    /// ready, but may become ready without a change of the spec) and `Stalled` (does not become ready without a change).
    /// `Exposed` says whether the application can be reached from outside. `FieldsDropped` is set if the API server has not
    /// stored some fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The newest 20 revisions of the Deployment, the oldest first. They are recorded together with other changes of the
    /// status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["number".into()]))]
    pub revisions: Vec<RevisionStatus>,
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

/// The maximum length of the message of a condition, in characters, as in `metav1.Condition`.
pub const MAX_MESSAGE: usize = 32_768;

/// Returns the schema of a list of conditions with the limits of `metav1.Condition`, which the Rust type does not have.
pub(crate) fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the current state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status of the condition last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "A sentence about the last transition.",
                    "type": "string",
                    "maxLength": MAX_MESSAGE,
                },
                "observedGeneration": {
                    "description": "The generation of the spec that the condition is about.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "The reason for the last transition, in CamelCase.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "Whether the condition holds: True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "The type of the condition, in CamelCase or like foo.example.com/CamelCase.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

impl AppDeployStatus {
    /// Returns the first address.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.addresses.first().map(|address| address.value.as_str())
    }
}

/// An address of the application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// The type of the address.
    #[serde(rename = "type")]
    pub type_: AddressType,
    /// The address.
    #[schemars(length(min = 1, max = 253))]
    pub value: String,
}

impl Address {
    /// Returns an IP address or a host name.
    #[must_use]
    pub fn of(value: &str) -> Self {
        let is_ip = value.parse::<IpAddr>().is_ok();
        Self {
            type_: if is_ip {
                AddressType::IPAddress
            } else {
                AddressType::Hostname
            },
            value: value.to_owned(),
        }
    }
}

/// The type of an address, as in the Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AddressType {
    /// An IPv4 or IPv6 address.
    IPAddress,
    /// A DNS name.
    Hostname,
}

/// A revision of the Deployment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionStatus {
    /// The number of the revision, from the annotation `deployment.kubernetes.io/revision`.
    pub number: i64,
    /// When its rollout began. Not set if it began before the operator recorded revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Whether all its pods were ready at the same time.
    #[serde(default)]
    pub became_ready: bool,
}

/// The root cause of a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The reason, in CamelCase, as in the Ready condition.
    pub reason: String,
    /// One sentence with the object and what is wrong with it.
    pub message: String,
    /// The command to run next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The types of conditions, as in kstatus: `Ready` is always set, the others only while they are true.
/// See <https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md>.
pub mod condition {
    /// All replicas are available.
    pub const READY: &str = "Ready";
    /// The object is not ready, but may become ready without a change of its spec: a rollout is in progress or paused, or
    /// the cause may pass, such as a crash loop.
    pub const RECONCILING: &str = "Reconciling";
    /// The object does not become ready without a change by a user.
    pub const STALLED: &str = "Stalled";
    /// The application can be reached through its Ingress.
    pub const EXPOSED: &str = "Exposed";
    /// A pod of a PodSet could not be created or deleted. Named as in a ReplicaSet.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// The API server has not stored some fields of a child: it is too old, a feature gate is off, or a policy removes them.
    /// Only while it is true.
    pub const FIELDS_DROPPED: &str = "FieldsDropped";
    /// All types that the operator writes. Other controllers may write others.
    pub const OURS: [&str; 6] = [READY, RECONCILING, STALLED, EXPOSED, REPLICA_FAILURE, FIELDS_DROPPED];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_an_address_is_detected() {
        for (text, kind) in [
            ("10.0.0.7", AddressType::IPAddress),
            ("2001:db8::1", AddressType::IPAddress),
            ("lb.example.com", AddressType::Hostname),
        ] {
            assert_eq!(Address::of(text).type_, kind, "{text}");
        }
    }
}
