//! The ServiceAccount of a pod.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::keys::KEYS;

/// The ServiceAccount that the pods run as: an existing one, or one that the operator creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.name) != has(self.annotations)", "serviceAccount needs exactly one of name (a ServiceAccount of the namespace) and annotations (of one that the operator creates); set one of them, or remove serviceAccount"))]
pub struct ServiceAccount {
    /// The name of an existing ServiceAccount in the same namespace. Either `name` or `annotations` must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a ServiceAccount has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop")
    )]
    pub name: Option<String>,
    /// The annotations of a ServiceAccount that the operator creates, with the name of the application: for the workload
    /// identity of a cloud, such as `eks.amazonaws.com/role-arn`. Empty for a ServiceAccount without annotations. Only in an
    /// AppDeploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = json!({"type": "string", "maxLength": 4096})))]
    #[x_kube(
        merge_strategy = kube::core::MapMerge::Atomic,
        validation = (KEYS, "the key of an annotation has letters, digits, '-', '_' and '.', and may begin with a domain; write it like eks.amazonaws.com/role-arn"),
        validation = ("self.all(key, !key.startsWith('appdeploy.dev/'))", "annotations of appdeploy.dev are set by the operator; remove them")
    )]
    pub annotations: Option<BTreeMap<String, String>>,
}
