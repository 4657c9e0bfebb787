//! Validates the volumes of a pod.

use std::collections::BTreeSet;

use crd::{KeyToPath, PodFields, Volume};

use super::{is_label, is_object_name};

/// Adds a message for each invalid volume. `at` is the path of the fields of the pod.
pub(super) fn problems(at: &str, pod: &PodFields, problems: &mut Vec<String>) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for volume in &pod.volumes {
        let at = format!("{at}.volumes[{}]", volume.name);
        if !is_label(&volume.name) {
            problems.push(format!("{at}: invalid name: write it like config"));
        }
        if !names.insert(&volume.name) {
            problems.push(format!("{at}: two volumes have this name; rename one of them"));
        }
        if let Some(path) = &volume.mount_path {
            if !is_mount_path(path) {
                problems.push(format!(
                    "{at}.mountPath: invalid path {path:?}: write it like /etc/nginx/conf.d"
                ));
            }
            if !paths.insert(path) {
                problems.push(format!(
                    "{at}.mountPath: two volumes have this path; change one of them"
                ));
            }
        } else if volume.read_only.is_some() {
            problems.push(format!(
                "{at}: readOnly is about the mountPath: set mountPath, or remove readOnly"
            ));
        }
        source_problems(&at, volume, problems);
    }
}

fn source_problems(at: &str, volume: &Volume, problems: &mut Vec<String>) {
    let (map, secret) = (volume.config_map.as_ref(), volume.secret.as_ref());
    let sources = [
        map.is_some(),
        secret.is_some(),
        volume.empty_dir.is_some(),
        volume.image.is_some(),
    ];
    if sources.iter().filter(|is_set| **is_set).count() != 1 {
        problems.push(format!(
            "{at}: this version of the operator needs exactly one of configMap, secret, emptyDir and image"
        ));
    }
    if volume.read_only == Some(false) && volume.empty_dir.is_none() {
        problems.push(format!("{at}: only an emptyDir can be written: remove readOnly"));
    }
    let names = map.map(|map| ("configMap.name", &map.name));
    let names = names
        .into_iter()
        .chain(secret.map(|secret| ("secret.secretName", &secret.secret_name)));
    for (field, name) in names.filter(|(_, name)| !is_object_name(name)) {
        problems.push(format!(
            "{at}.{field}: invalid name {name:?}: write it like shop-config"
        ));
    }
    let items = map.map_or(&[][..], |map| &map.items);
    let items = items.iter().chain(secret.map_or(&[][..], |secret| &secret.items));
    for KeyToPath { key, path } in items.filter(|item| !is_file_path(&item.path)) {
        problems.push(format!(
            "{at}: invalid path {path:?} of key {key}: write it like nginx.conf"
        ));
    }
    if let Some(image) = &volume.image
        && (image.reference.is_empty() || image.reference.contains(char::is_whitespace))
    {
        problems.push(format!(
            "{at}.image.reference: invalid image {:?}: write it like ghcr.io/acme/assets:1.4",
            image.reference
        ));
    }
}

/// Whether a volume can be mounted at a path: it is absolute, and written in one way only.
pub(crate) fn is_mount_path(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(is_file_path)
}

/// Whether it is the path of a file below a mount path.
fn is_file_path(path: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && c != ':');
    path.len() <= 512
        && path
            .split('/')
            .all(|part| is_plain(part) && !matches!(part, "." | ".."))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(volumes: &Value) -> Vec<String> {
        let pod = serde_json::from_value(json!({"image": "nginx:1", "volumes": volumes})).unwrap();
        let mut found = Vec::new();
        problems("spec", &pod, &mut found);
        found
    }

    #[test]
    fn mount_paths_are_absolute_and_written_in_one_way() {
        for good in ["/a", "/etc/nginx/conf.d", "/a..b/..c", "/a_b-c@d"] {
            assert!(is_mount_path(good), "{good}");
        }
        for bad in [
            "", "/", "a", "/a/", "//a", "/a//b", "/a/../b", "/..", "/./a", "/a:b", "/a b", "/ä", "/a\n",
        ] {
            assert!(!is_mount_path(bad), "{bad:?}");
        }
    }

    #[test]
    fn all_problems_of_volumes_are_reported() {
        let volumes = json!([
            {"name": "a", "mountPath": "/a", "configMap": {"name": "a", "items": [{"key": "k", "path": "../k"}]}},
            {"name": "a", "mountPath": "/a", "readOnly": false, "secret": {"secretName": "A"}},
            {"name": "B", "mountPath": "b", "image": {"reference": ""}},
            {"name": "c", "mountPath": "/c"},
            {"name": "d", "mountPath": "/d", "emptyDir": {}, "image": {"reference": "a"}},
        ]);
        insta::assert_snapshot!(messages(&volumes).join("\n"), @r#"
        spec.volumes[a]: invalid path "../k" of key k: write it like nginx.conf
        spec.volumes[a]: two volumes have this name; rename one of them
        spec.volumes[a].mountPath: two volumes have this path; change one of them
        spec.volumes[a]: only an emptyDir can be written: remove readOnly
        spec.volumes[a].secret.secretName: invalid name "A": write it like shop-config
        spec.volumes[B]: invalid name: write it like config
        spec.volumes[B].mountPath: invalid path "b": write it like /etc/nginx/conf.d
        spec.volumes[B].image.reference: invalid image "": write it like ghcr.io/acme/assets:1.4
        spec.volumes[c]: this version of the operator needs exactly one of configMap, secret, emptyDir and image
        spec.volumes[d]: this version of the operator needs exactly one of configMap, secret, emptyDir and image
        "#);
        let good = json!([
            {"name": "a", "mountPath": "/a", "readOnly": true, "configMap": {"name": "a"}},
            {"name": "b", "mountPath": "/a/b", "readOnly": false, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        ]);
        assert_eq!(messages(&good), [""; 0]);
    }
}
