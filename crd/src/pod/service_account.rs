//! The ServiceAccount of a pod.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The ServiceAccount that the pods run as.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.name)", "serviceAccount needs a name: set serviceAccount.name to a ServiceAccount of the namespace, or remove serviceAccount"))]
pub struct ServiceAccount {
    /// The name of an existing ServiceAccount in the same namespace. Required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a ServiceAccount has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop")
    )]
    pub name: Option<String>,
}
