//! The volumes of a pod, and where containers mount them.

use crd::{KeyToPath, Mount, PodFields, Volume};

/// Describes where the files of a volume come from.
pub fn source(volume: &Volume) -> String {
    let files = if let Some(map) = &volume.config_map {
        keys_of(&format!("ConfigMap {}", map.name), &map.items, map.optional)
    } else if let Some(secret) = &volume.secret {
        keys_of(
            &format!("Secret {}", secret.secret_name),
            &secret.items,
            secret.optional,
        )
    } else if let Some(image) = &volume.image {
        let policy = image.pull_policy;
        let policy = policy.map(|policy| format!("pull policy {}", policy.as_str()));
        listed(format!("image {}", image.reference), [policy])
    } else if let Some(dir) = &volume.empty_dir {
        let medium = dir.medium.map(|medium| format!("medium {}", medium.as_str()));
        let limit = dir.size_limit.as_ref().map(|limit| format!("size limit {limit}"));
        listed("emptyDir".to_owned(), [medium, limit])
    } else {
        "<unset>".to_owned()
    };
    format!("{}: {files}", volume.name)
}

/// Describes a ConfigMap or a Secret, and the keys that are used of it.
fn keys_of(object: &str, items: &[KeyToPath], optional: Option<bool>) -> String {
    let optional = (optional == Some(true)).then(|| "optional".to_owned());
    let details = items.iter().map(|item| Some(key(item))).chain([optional]);
    listed(object.to_owned(), details)
}

/// Joins a text and the details that are set.
fn listed(first: String, details: impl IntoIterator<Item = Option<String>>) -> String {
    let all = [Some(first)].into_iter().chain(details).flatten();
    all.collect::<Vec<_>>().join(", ")
}

fn key(item: &KeyToPath) -> String {
    if item.key == item.path {
        return format!("key {}", item.key);
    }
    format!("key {} as {}", item.key, item.path)
}

/// Lists the mounts of the container of the application, as `kubectl describe` does.
pub fn mounts(pod: &PodFields) -> Vec<String> {
    let mounts = pod.volumes.iter().filter_map(|volume| {
        let path = volume.mount_path.as_deref()?;
        Some(mount(path, &volume.name, volume.is_writable()))
    });
    mounts.collect()
}

/// Lists the mounts of another container.
pub fn mounts_of(pod: &PodFields, mounts: &[Mount]) -> Vec<String> {
    let is_writable = |mount: &Mount| {
        let mut volumes = pod.volumes.iter();
        let is_empty_dir = volumes.any(|volume| volume.name == mount.name && volume.empty_dir.is_some());
        is_empty_dir && mount.read_only != Some(true)
    };
    let mounts = mounts.iter();
    let mounts = mounts.map(|one| mount(&one.mount_path, &one.name, is_writable(one)));
    mounts.collect()
}

fn mount(path: &str, volume: &str, is_writable: bool) -> String {
    let access = if is_writable { "rw" } else { "ro" };
    format!("{path} from {volume} ({access})")
}
