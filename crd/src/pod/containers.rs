//! Containers next to that of the application: init containers and sidecars.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{EnvFromSource, EnvVar, ImagePullPolicy, Probes, Resources};

/// The rule that all containers have different names.
pub(crate) const NAMES: &str = "!has(self.initContainers) || !has(self.sidecars) || self.initContainers.all(one, self.sidecars.all(other, other.name != one.name))";
/// Its message.
pub(crate) const NAMES_MESSAGE: &str =
    "initContainers and sidecars have no name in common: rename the container that is in both";
/// The rule that a mount refers to a volume of the spec.
pub(crate) const MOUNTS: &str = "(!has(self.initContainers) || self.initContainers.all(one, !has(one.mounts) || one.mounts.all(mount, has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)))) && (!has(self.sidecars) || self.sidecars.all(one, !has(one.mounts) || one.mounts.all(mount, has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))))";
/// Its message.
pub(crate) const MOUNTS_MESSAGE: &str = "mounts of initContainers and sidecars name volumes of the spec: add the missing volume to volumes, or correct the name";
/// The rule that only an empty directory can be written.
pub(crate) const WRITES: &str = "!has(self.volumes) || self.volumes.all(volume, has(volume.emptyDir) || (!has(self.initContainers) || self.initContainers.all(one, !has(one.mounts) || one.mounts.all(mount, mount.name != volume.name || !has(mount.readOnly) || mount.readOnly))) && (!has(self.sidecars) || self.sidecars.all(one, !has(one.mounts) || one.mounts.all(mount, mount.name != volume.name || !has(mount.readOnly) || mount.readOnly))))";
/// Its message.
pub(crate) const WRITES_MESSAGE: &str =
    "mounts of initContainers and sidecars can only write to an emptyDir: remove readOnly from the others";
/// The rule that each volume is mounted.
pub(crate) const MOUNTED: &str = "!has(self.volumes) || self.volumes.all(volume, has(volume.mountPath) || (has(self.initContainers) && self.initContainers.exists(one, has(one.mounts) && one.mounts.exists(mount, mount.name == volume.name))) || (has(self.sidecars) && self.sidecars.exists(one, has(one.mounts) && one.mounts.exists(mount, mount.name == volume.name))))";
/// Its message.
pub(crate) const MOUNTED_MESSAGE: &str = "volumes need a mountPath, unless mounts of initContainers or sidecars name them: set mountPath, like /etc/nginx/conf.d";

/// A container next to that of the application. It has the security settings of the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherContainer {
    /// The name of the container, which is unique in the pod. The container of the application has the name `app`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = ("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "the name of a container has lower-case letters, digits and '-', and starts and ends with a letter or digit; write it like migrate"),
        validation = ("self != 'app'", "app is the name of the container of the application; choose another name, like migrate")
    )]
    pub name: String,
    /// The container image to run, such as `ghcr.io/acme/shop:1.4`. An image without a tag is pulled as `:latest`. Required.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = ("self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$')", "an image is [REGISTRY/]NAME[:TAG], its name in lower case and without spaces; write it like nginx or ghcr.io/acme/shop:1.4")
    )]
    pub image: String,
    /// The command, which replaces the entrypoint of the image. It is not run in a shell. Default: the entrypoint of the
    /// image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 131_072)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub command: Vec<String>,
    /// The arguments of the command. Default: the arguments of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), inner(length(max = 131_072)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub args: Vec<String>,
    /// Environment variables. Those of the application are not set in this container. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Environment variables from all keys of Secrets and ConfigMaps in the same namespace. Those of `env` take precedence.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Atomic)]
    pub env_from: Vec<EnvFromSource>,
    /// CPU and memory of the container: what the scheduler reserves (`requests`) and the maximum (`limits`). Default: nothing
    /// is reserved or limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// When nodes pull the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Volumes of the spec, each with the directory where it is mounted in this container. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Map(vec!["mountPath".into()]))]
    pub mounts: Vec<Mount>,
}

/// A container that runs next to that of the application, and is restarted when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sidecar {
    /// The fields that each container has.
    #[serde(flatten)]
    pub container: OtherContainer,
    /// The probes of the container. The pod is ready only while the readiness probe of each container succeeds, and the next
    /// container starts when the startup probe has succeeded. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Box<Probes>>,
}

/// A volume of the spec in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// The name of the volume in `volumes`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The directory where the volume is mounted, as an absolute path. It hides what the image has there. Each mount of a
    /// container has another directory.
    #[schemars(length(min = 2, max = 512))]
    #[x_kube(
        validation = ("self.matches('^(/[!-.0-9;-~]+)+$') && !self.matches('/[.][.]?(/|$)')", "a mount path is absolute, without ':', spaces, '.', '..' and a '/' at its end; write it like /etc/nginx/conf.d")
    )]
    pub mount_path: String,
    /// Whether the container can't write to the volume. Only an `emptyDir` can be written; the others are always read-only.
    /// Default: false for an `emptyDir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}
