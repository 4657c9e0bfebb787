//! The nodes on which pods may run.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::keys::{KEY, KEYS};

/// The nodes on which the pods may run, as in a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// The labels that a node must have, such as `disktype: ssd`. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = json!({"type": "string", "maxLength": 63})))]
    #[x_kube(
        merge_strategy = kube::core::MapMerge::Atomic,
        validation = (KEYS, "the key of a label has letters, digits, '-', '_' and '.', and may begin with a domain; write it like disktype or topology.kubernetes.io/zone"),
        validation = ("self.all(key, self[key].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))", "the value of a label has letters, digits, '-', '_' and '.'; write it like ssd")
    )]
    pub node_selector: BTreeMap<String, String>,
    /// The taints of nodes that the pods tolerate. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,
}

/// Taints that pods tolerate, as in a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.key) || has(self.operator) && self.operator == 'Exists'", "a toleration without a key tolerates all taints: set operator to Exists, or set a key"),
    validation = ("!has(self.value) || !has(self.operator) || self.operator == 'Equal'", "a toleration with the operator Exists has no value: remove it, or the operator"),
    validation = ("!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'", "tolerationSeconds is for the effect NoExecute: set the effect, or remove tolerationSeconds")
)]
pub struct Toleration {
    /// The key of the taint. Default: all keys, only with the operator `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    #[x_kube(
        validation = (KEY, "the key of a taint has letters, digits, '-', '_' and '.', and may begin with a domain; write it like dedicated or nvidia.com/gpu")
    )]
    pub key: Option<String>,
    /// How the value is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The value of the taint. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = ("self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')", "the value of a taint has letters, digits, '-', '_' and '.'; write it like batch")
    )]
    pub value: Option<String>,
    /// The effect of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// After how many seconds pods that run are evicted, with the effect `NoExecute`. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub toleration_seconds: Option<i64>,
}

/// How the value of a taint is compared: with `Equal` it must be the same, with `Exists` it may be any. Default `Equal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The value must be the same.
    Equal,
    /// The value may be any.
    Exists,
}

impl TolerationOperator {
    /// Returns the value, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "Equal",
            Self::Exists => "Exists",
        }
    }
}

/// The effect of a taint: `NoSchedule` keeps new pods from the node, `PreferNoSchedule` does so if there are other nodes, and
/// `NoExecute` also evicts pods that run. Default: all effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled to the node.
    NoSchedule,
    /// New pods are scheduled to the node only if there is no other.
    PreferNoSchedule,
    /// Pods are evicted from the node.
    NoExecute,
}

impl TaintEffect {
    /// All effects.
    pub const ALL: [Self; 3] = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];

    /// Returns the value, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}
