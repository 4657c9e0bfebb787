//! Variables from other objects, and from the pod itself.

#![expect(clippy::struct_field_names, reason = "the names of Kubernetes")]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KeyRef;

/// The source of the value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].filter(is_set, is_set).size() == 1", "valueFrom needs exactly one of secretKeyRef, configMapKeyRef and fieldRef")
)]
pub struct EnvVarSource {
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub secret_key_ref: Option<KeyRef>,
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub config_map_key_ref: Option<KeyRef>,
    /// A field of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub field_ref: Option<FieldRef>,
}

/// A field of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldRef {
    /// The path of the field.
    pub field_path: FieldPath,
}

/// A field of the pod that a variable can have as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldPath {
    /// The name of the pod.
    #[serde(rename = "metadata.name")]
    Name,
    /// The namespace of the pod.
    #[serde(rename = "metadata.namespace")]
    Namespace,
    /// The UID of the pod.
    #[serde(rename = "metadata.uid")]
    Uid,
    /// The name of its node.
    #[serde(rename = "spec.nodeName")]
    NodeName,
    /// The name of its ServiceAccount.
    #[serde(rename = "spec.serviceAccountName")]
    ServiceAccountName,
    /// An IP address of its node.
    #[serde(rename = "status.hostIP")]
    HostIp,
    /// All IP addresses of its node.
    #[serde(rename = "status.hostIPs")]
    HostIps,
    /// An IP address of the pod.
    #[serde(rename = "status.podIP")]
    PodIp,
    /// All IP addresses of the pod.
    #[serde(rename = "status.podIPs")]
    PodIps,
}

impl FieldPath {
    /// All paths.
    pub const ALL: [Self; 9] = [
        Self::Name,
        Self::Namespace,
        Self::Uid,
        Self::NodeName,
        Self::ServiceAccountName,
        Self::HostIp,
        Self::HostIps,
        Self::PodIp,
        Self::PodIps,
    ];

    /// Returns the path, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Name => "metadata.name",
            Self::Namespace => "metadata.namespace",
            Self::Uid => "metadata.uid",
            Self::NodeName => "spec.nodeName",
            Self::ServiceAccountName => "spec.serviceAccountName",
            Self::HostIp => "status.hostIP",
            Self::HostIps => "status.hostIPs",
            Self::PodIp => "status.podIP",
            Self::PodIps => "status.podIPs",
        }
    }
}

/// Variables from all keys of a Secret or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.configMapRef) != has(self.secretRef)", "envFrom needs exactly one of configMapRef and secretRef in each entry; write two entries for two objects")
)]
pub struct EnvFromSource {
    /// A text before each key, such as `DB_`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[A-Za-z_][-._a-zA-Z0-9]*$')", "a prefix of variables has letters, digits, '_', '-' or '.', and starts with a letter or '_'; write it like DB_")
    )]
    pub prefix: Option<String>,
    /// The ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<EnvFromReference>,
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<EnvFromReference>,
}

/// A Secret or a ConfigMap, all keys of which become variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvFromReference {
    /// The name of the Secret or ConfigMap, in the namespace of the application.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret or ConfigMap has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-db")
    )]
    pub name: String,
    /// Starts the pod even if the object is missing. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_in_kubernetes() {
        for path in FieldPath::ALL {
            assert_eq!(serde_json::to_value(path).unwrap(), path.as_str());
        }
    }
}
