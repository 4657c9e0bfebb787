//! The volumes of a pod.
//!
//! Only sources that stay in the namespace of the pod, or hold no data of others: no host path, no volume of the cluster.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ImagePullPolicy;
use crate::Quantity;

/// A volume, and where it is mounted in the container of the application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("(has(self.configMap) ? 1 : 0) + (has(self.secret) ? 1 : 0) + (has(self.emptyDir) ? 1 : 0) + (has(self.image) ? 1 : 0) == 1", "a volume needs exactly one of configMap, secret, emptyDir and image"),
    validation = ("!has(self.readOnly) || has(self.mountPath)", "readOnly is about the mountPath of the application: set mountPath, or remove readOnly"),
    validation = ("!has(self.readOnly) || self.readOnly || has(self.emptyDir)", "only an emptyDir can be written: remove readOnly")
)]
pub struct Volume {
    /// The name of the volume, which is unique in the pod.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "the name of a volume has lower-case letters, digits and '-', and starts and ends with a letter or digit; write it like config")
    )]
    pub name: String,
    /// The directory where the volume is mounted in the container of the application, as an absolute path. It hides what the
    /// image has there. Each volume has another directory. Required, unless an init container or a sidecar mounts the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 512))]
    #[x_kube(
        validation = ("self.matches('^(/[!-.0-9;-~]+)+$') && !self.matches('/[.][.]?(/|$)')", "a mount path is absolute, without ':', spaces, '.', '..' and a '/' at its end; write it like /etc/nginx/conf.d")
    )]
    pub mount_path: Option<String>,
    /// Whether the application can't write to the volume. Only an `emptyDir` can be written; the others are always
    /// read-only. Default: false for an `emptyDir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// A ConfigMap in the same namespace, with a file for each key. The files of running pods are updated a minute or so
    /// after the ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub config_map: Option<ConfigMapVolume>,
    /// A Secret in the same namespace, with a file for each key. The files of running pods are updated a minute or so after
    /// the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub secret: Option<SecretVolume>,
    /// An empty directory that is deleted with the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub empty_dir: Option<EmptyDirVolume>,
    /// The files of an image. Nodes need Kubernetes 1.35, or an earlier version with the feature gate `ImageVolume`, and a
    /// container runtime that supports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = kube::core::MapMerge::Atomic)]
    pub image: Option<ImageVolume>,
}

impl Volume {
    /// Whether the application can write to it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.empty_dir.is_some() && self.read_only != Some(true)
    }
}

/// A volume with the keys of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapVolume {
    /// The name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a ConfigMap has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-config")
    )]
    pub name: String,
    /// The keys to mount, each as a file. Default: all keys, each as a file of the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub items: Vec<KeyToPath>,
    /// Starts the pod even if the ConfigMap or a key is missing. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A volume with the keys of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolume {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')", "the name of a Secret has lower-case letters, digits, '-' and '.', and starts and ends with a letter or digit; write it like shop-keys")
    )]
    pub secret_name: String,
    /// The keys to mount, each as a file. Default: all keys, each as a file of the same name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub items: Vec<KeyToPath>,
    /// Starts the pod even if the Secret or a key is missing. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A key, and the file with its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyToPath {
    /// The key.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// The path of the file below the mount path.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = ("self.matches('^[!-.0-9;-~]+(/[!-.0-9;-~]+)*$') && !self.matches('(^|/)[.][.]?(/|$)')", "the path of a file is relative, without ':', spaces, '.' and '..'; write it like nginx.conf")
    )]
    pub path: String,
}

/// An empty directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirVolume {
    /// Where the files are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<EmptyDirMedium>,
    /// The maximum size, such as `64Mi`. A pod that exceeds it is evicted. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Quantity>,
}

/// Where the files of an empty directory are stored: `Memory`, which counts as memory of the container that writes them.
/// Default: on the disk of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EmptyDirMedium {
    /// In memory (tmpfs).
    Memory,
}

impl EmptyDirMedium {
    /// Returns the value, as in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "Memory",
        }
    }
}

/// The files of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageVolume {
    /// The image, such as `ghcr.io/acme/assets:1.4`. The pull secrets of the pod are used for it, too.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = ("self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')", "an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like ghcr.io/acme/assets:1.4")
    )]
    pub reference: String,
    /// When nodes pull the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<ImagePullPolicy>,
}
