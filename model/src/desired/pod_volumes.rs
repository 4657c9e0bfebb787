//! Renders the volumes of a pod and their mounts.

use crd::{KeyToPath, Mount, PodFields, Volume};
use k8s_openapi::api::core::v1::{
    self as core, ConfigMapVolumeSource, EmptyDirVolumeSource, ImageVolumeSource, SecretVolumeSource, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource;

use super::some_list;

/// Renders the volumes of a pod; `None` without any.
pub(super) fn volumes(pod: &PodFields) -> Option<Vec<core::Volume>> {
    some_list(&pod.volumes, volume)
}

/// Renders the mounts of the container of the application.
pub(super) fn mounts(pod: &PodFields) -> Option<Vec<VolumeMount>> {
    let mounts = pod.volumes.iter().filter_map(|volume| {
        Some(VolumeMount {
            name: volume.name.clone(),
            mount_path: volume.mount_path.clone()?,
            read_only: (!volume.is_writable()).then_some(true),
            ..VolumeMount::default()
        })
    });
    let mounts: Vec<_> = mounts.collect();
    (!mounts.is_empty()).then_some(mounts)
}

/// Renders the mounts of another container.
pub(super) fn mounts_of(pod: &PodFields, mounts: &[Mount]) -> Option<Vec<VolumeMount>> {
    let is_empty_dir = |mount: &Mount| {
        let mut volumes = pod.volumes.iter();
        volumes.any(|volume| volume.name == mount.name && volume.empty_dir.is_some())
    };
    some_list(mounts, |mount| VolumeMount {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: (mount.read_only == Some(true) || !is_empty_dir(mount)).then_some(true),
        ..VolumeMount::default()
    })
}

fn volume(volume: &Volume) -> core::Volume {
    core::Volume {
        name: volume.name.clone(),
        config_map: volume.config_map.as_ref().map(|map| ConfigMapVolumeSource {
            name: map.name.clone(),
            items: items(&map.items),
            optional: map.optional,
            ..ConfigMapVolumeSource::default()
        }),
        secret: volume.secret.as_ref().map(|secret| SecretVolumeSource {
            secret_name: Some(secret.secret_name.clone()),
            items: items(&secret.items),
            optional: secret.optional,
            ..SecretVolumeSource::default()
        }),
        empty_dir: volume.empty_dir.as_ref().map(|dir| EmptyDirVolumeSource {
            medium: dir.medium.map(|medium| medium.as_str().to_owned()),
            size_limit: dir.size_limit.as_ref().map(|limit| resource::Quantity(limit.0.clone())),
        }),
        image: volume.image.as_ref().map(|image| ImageVolumeSource {
            reference: Some(image.reference.clone()),
            pull_policy: image.pull_policy.map(|policy| policy.as_str().to_owned()),
        }),
        ..core::Volume::default()
    }
}

fn items(items: &[KeyToPath]) -> Option<Vec<core::KeyToPath>> {
    some_list(items, |item| core::KeyToPath {
        key: item.key.clone(),
        path: item.path.clone(),
        mode: None,
    })
}
