//! Reads the volumes of a pod.

use std::collections::BTreeSet;

use crd::{ConfigMapVolume, EmptyDirVolume, ImagePullPolicy, ImageVolume, KeyToPath, Quantity, SecretVolume, Volume};
use serde_json::{Value, json};

use super::{containers, items, text};
use crate::defaults;

/// Reads the volumes that the container of the application mounts as the operator would mount them: once, and as a whole; and
/// those that only other containers mount. The others are unmapped.
pub(super) fn read(spec: &Value, container: &Value) -> Vec<Volume> {
    let mut paths = BTreeSet::new();
    let volumes = items(&spec["volumes"]).filter_map(|volume| {
        let is_of_volume = |mount: &&Value| mount["name"] == volume["name"];
        let mut mounts = items(&container["volumeMounts"]).filter(is_of_volume);
        match (mounts.next(), mounts.next()) {
            (Some(mount), None) => {
                let path = containers::whole(mount).filter(|path| paths.insert(path.clone()))?;
                read_one(volume, Some(path), mount["readOnly"] == true)
            }
            (None, None) => {
                let others = containers::expressible(spec);
                let mut mounts = others
                    .flat_map(|other| items(&other["volumeMounts"]))
                    .filter(is_of_volume);
                mounts.find_map(containers::whole)?;
                read_one(volume, None, false)
            }
            _ => None,
        }
    });
    volumes.collect()
}

fn read_one(volume: &Value, mount_path: Option<String>, read_only: bool) -> Option<Volume> {
    let mut read = Volume {
        name: text(&volume["name"]),
        mount_path,
        ..Volume::default()
    };
    if let map @ Value::Object(_) = &volume["configMap"] {
        read.config_map = Some(ConfigMapVolume {
            name: text(&map["name"]),
            items: files(&map["items"]),
            optional: map["optional"].as_bool(),
        });
    } else if let secret @ Value::Object(_) = &volume["secret"] {
        read.secret = Some(SecretVolume {
            secret_name: text(&secret["secretName"]),
            items: files(&secret["items"]),
            optional: secret["optional"].as_bool(),
        });
    } else if let image @ Value::Object(_) = &volume["image"] {
        read.image = Some(ImageVolume {
            reference: text(&image["reference"]),
            pull_policy: pull_policy(image),
        });
    } else if let dir @ Value::Object(_) = &volume["emptyDir"] {
        read.read_only = read_only.then_some(true);
        read.empty_dir = Some(EmptyDirVolume {
            medium: serde_json::from_value(dir["medium"].clone()).ok(),
            size_limit: match &dir["sizeLimit"] {
                Value::Null => None,
                Value::String(limit) => Some(Quantity(limit.clone())),
                limit => Some(Quantity(limit.to_string())),
            },
        });
    } else {
        return None;
    }
    Some(read)
}

fn files(list: &Value) -> Vec<KeyToPath> {
    let files = items(list).map(|item| KeyToPath {
        key: text(&item["key"]),
        path: text(&item["path"]),
    });
    files.collect()
}

/// Returns the pull policy, unless it is the default for the image.
fn pull_policy(image: &Value) -> Option<ImagePullPolicy> {
    let policy = image["pullPolicy"].as_str()?;
    if policy == defaults::pull_policy(&text(&image["reference"])) {
        return None;
    }
    serde_json::from_value(json!(policy)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_that_only_other_containers_mount_are_read_without_a_path() {
        let mount = |name: &str| json!({"name": name, "mountPath": "/a"});
        let spec = json!({"volumes": [{"name": "work", "emptyDir": {}}, {"name": "part", "emptyDir": {}}],
            "initContainers": [{"name": "setup", "volumeMounts": [mount("work"), {"name": "part", "mountPath": "/b", "subPath": "b"}]}]});
        let found = read(&spec, &json!({}));
        let found: Vec<_> = found.iter().map(|volume| (&*volume.name, &volume.mount_path)).collect();
        assert_eq!(found, [("work", &None)]);
    }

    #[test]
    fn only_volumes_that_are_mounted_once_and_as_a_whole_are_read() {
        let spec = json!({"volumes": [
            {"name": "config", "configMap": {"name": "config"}},
            {"name": "part", "configMap": {"name": "config"}},
            {"name": "twice", "emptyDir": {}},
            {"name": "unused", "emptyDir": {}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
        ]});
        let container = json!({"volumeMounts": [
            {"name": "config", "mountPath": "/config"},
            {"name": "part", "mountPath": "/etc/app.conf", "subPath": "app.conf"},
            {"name": "twice", "mountPath": "/a"}, {"name": "twice", "mountPath": "/b"},
            {"name": "claim", "mountPath": "/data"},
        ]});
        let names: Vec<_> = read(&spec, &container).into_iter().map(|volume| volume.name).collect();
        assert_eq!(names, ["config"]);
    }
}
