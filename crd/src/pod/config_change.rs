//! What a change of a ConfigMap does.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to the pods when the content of a ConfigMap changes that `volumes`, `envFrom` or `env` refer to: nothing
/// (`Ignore`), or they are replaced like after a change of the spec (`Restart`). `Restart` needs an operator that runs with
/// `--watch-configmaps`. A ConfigMap that is deleted restarts nothing, unless all references to it are `optional`. Changes of
/// Secrets are not observed: restart the application after them. Default `Ignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnConfigChange {
    /// Nothing.
    Ignore,
    /// The pods are replaced.
    Restart,
}

impl OnConfigChange {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Ignore, Self::Restart];

    /// Returns the value of the field.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Restart => "Restart",
        }
    }
}

/// A ConfigMap whose content the pods run with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapStatus {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The `resourceVersion` at which it was read. Not set if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub resource_version: Option<String>,
    /// The hash of its content. Not set if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub hash: Option<String>,
}
