//! What the operator says about an application.

use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What the operator saw and did. Written by the operator alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppDeployStatus {
    /// The generation of the spec that this status is about. Older than `metadata.generation`: the operator
    /// has not seen the last change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The restart that this status is about: what the annotation `appdeploy.dev/restarted-at` said.
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
    /// The pods' label selector, for `kubectl scale` and a HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Where the application answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The addresses behind the URL: of the load balancer, or of the Service if there is no Ingress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub addresses: Vec<Address>,
    /// Why the application does not work, and what to do about it. Absent when it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// `Ready` (Unknown while the operator cannot see the current state), and, only while they are true, `Reconciling` (not
    /// ready, and may become so without a change of the spec) and `Stalled` (does not become ready without a change).
    /// `Exposed` says whether the application can be reached from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The newest revisions of the Deployment, the oldest first. Recorded together with other changes of the status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["number".into()]))]
    pub revisions: Vec<RevisionStatus>,
}

/// The longest message of a condition, in characters, as in `metav1.Condition`.
pub const MAX_MESSAGE: usize = 32_768;

/// Returns the schema of a list of conditions with the limits of `metav1.Condition`, which its Rust type does not have.
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
    /// What kind of address it is.
    #[serde(rename = "type")]
    pub type_: AddressType,
    /// The address.
    #[schemars(length(min = 1, max = 253))]
    pub value: String,
}

impl Address {
    /// Returns an address of the type that its text has.
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

/// The kind of an address, named as in the Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AddressType {
    /// An IPv4 or IPv6 address.
    IPAddress,
    /// A DNS name.
    Hostname,
}

/// What became of one revision of the Deployment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionStatus {
    /// The number of the revision, from the annotation `deployment.kubernetes.io/revision`.
    pub number: i64,
    /// When the operator saw its rollout begin. Absent where it began before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Whether all its pods became ready at the same time.
    #[serde(default)]
    pub became_ready: bool,
}

/// The root cause of what does not work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// One word, the same as the reason of the Ready condition.
    pub reason: String,
    /// One sentence that names the object and what is wrong with it.
    pub message: String,
    /// The command to run next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The types of the conditions, after kstatus: `Ready` is always there, the others only while they are true.
/// See <https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md>.
pub mod condition {
    /// The application serves with all its replicas.
    pub const READY: &str = "Ready";
    /// The object is not ready, and may become ready without a change of its spec: a rollout goes on, or the cause may pass, as
    /// that of a crash loop. Also while a rollout is paused.
    pub const RECONCILING: &str = "Reconciling";
    /// The object does not become ready without a change by a person.
    pub const STALLED: &str = "Stalled";
    /// The application can be reached through its Ingress.
    pub const EXPOSED: &str = "Exposed";
    /// A pod of a PodSet could not be created or deleted. Named as in a ReplicaSet.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// All of them. Conditions of other types belong to other writers.
    pub const OURS: [&str; 5] = [READY, RECONCILING, STALLED, EXPOSED, REPLICA_FAILURE];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_of_an_address_follows_from_its_text() {
        for (text, kind) in [
            ("10.0.0.7", AddressType::IPAddress),
            ("2001:db8::1", AddressType::IPAddress),
            ("lb.example.com", AddressType::Hostname),
        ] {
            assert_eq!(Address::of(text).type_, kind, "{text}");
        }
    }
}
