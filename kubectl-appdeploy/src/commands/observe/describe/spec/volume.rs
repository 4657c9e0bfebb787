//! The volumes of a pod, and where containers mount them.

use crd::{KeyToPath, Mount, PodFields, Volume};

/// Describes where the files of a volume come from.
pub fn source(volume: &Volume) -> String {
    let optional = |optional: Option<bool>| (optional == Some(true)).then(|| "optional".to_owned());
    let keys = |items: &[KeyToPath]| items.iter().map(key).collect::<Vec<_>>();
    let mut parts = match volume {
        Volume {
            config_map: Some(map), ..
        } => {
            let name = format!("ConfigMap {}", map.name);
            [
                vec![name],
                keys(&map.items),
                optional(map.optional).into_iter().collect(),
            ]
            .concat()
        }
        Volume {
            secret: Some(secret), ..
        } => {
            let name = format!("Secret {}", secret.secret_name);
            [
                vec![name],
                keys(&secret.items),
                optional(secret.optional).into_iter().collect(),
            ]
            .concat()
        }
        Volume { image: Some(image), .. } => {
            let policy = image
                .pull_policy
                .map(|policy| format!("pull policy {}", policy.as_str()));
            [Some(format!("image {}", image.reference)), policy]
                .into_iter()
                .flatten()
                .collect()
        }
        Volume {
            empty_dir: Some(dir), ..
        } => {
            let medium = dir.medium.map(|medium| format!("medium {}", medium.as_str()));
            let limit = dir.size_limit.as_ref().map(|limit| format!("size limit {limit}"));
            [Some("emptyDir".to_owned()), medium, limit]
                .into_iter()
                .flatten()
                .collect()
        }
        _ => vec!["<unset>".to_owned()],
    };
    parts[0] = format!("{}: {}", volume.name, parts[0]);
    parts.join(", ")
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
