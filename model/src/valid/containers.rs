//! Validates init containers and sidecars.

use std::collections::BTreeSet;

use crd::{EnvFromSource, OtherContainer, PodFields};

use super::{is_label, is_mount_path, probes};
use crate::desired::CONTAINER;

/// Adds a message for each invalid container, and for each volume that no container mounts. `at` is the path of the fields of
/// the pod.
pub(super) fn add_problems(at: &str, pod: &PodFields, problems: &mut Vec<String>) {
    let mut names = BTreeSet::from([CONTAINER]);
    for (list, container) in pod.other_containers() {
        let at = format!("{at}.{list}[{}]", container.name);
        if !is_label(&container.name) {
            problems.push(format!("{at}: invalid name: write it like migrate"));
        }
        if !names.insert(&container.name) {
            problems.push(format!("{at}: two containers have this name; rename one of them"));
        }
        if container.image.is_empty() || container.image.contains(char::is_whitespace) {
            problems.push(format!(
                "{at}.image: invalid image {:?}: write it like nginx or ghcr.io/acme/shop:1.4",
                container.image
            ));
        }
        if container.env_from.iter().any(is_ambiguous) {
            problems.push(format!(
                "{at}.envFrom: each entry needs exactly one of configMapRef and secretRef"
            ));
        }
        mount_problems(&at, pod, container, problems);
    }
    for sidecar in &pod.sidecars {
        if let Some(probes) = &sidecar.probes {
            let at = format!("{at}.sidecars[{}]", sidecar.container.name);
            probes::add_problems_of(&at, probes, problems);
        }
    }
    let is_mounted = |name: &str| {
        let mut mounts = pod.other_containers().flat_map(|(_, container)| &container.mounts);
        mounts.any(|mount| mount.name == name)
    };
    let unused = pod.volumes.iter();
    for volume in unused.filter(|volume| volume.mount_path.is_none() && !is_mounted(&volume.name)) {
        problems.push(format!(
            "{at}.volumes[{}]: missing mountPath: set it, or add the volume to the mounts of an init container or a sidecar",
            volume.name
        ));
    }
}

/// Whether an entry does not refer to exactly one object.
pub(super) const fn is_ambiguous(source: &EnvFromSource) -> bool {
    source.config_map_ref.is_some() == source.secret_ref.is_some()
}

fn mount_problems(at: &str, pod: &PodFields, container: &OtherContainer, problems: &mut Vec<String>) {
    let mut paths = BTreeSet::new();
    for mount in &container.mounts {
        let at = format!("{at}.mounts[{}]", mount.mount_path);
        if !is_mount_path(&mount.mount_path) {
            problems.push(format!(
                "{at}: invalid path {:?}: write it like /etc/nginx/conf.d",
                mount.mount_path
            ));
        }
        if !paths.insert(&mount.mount_path) {
            problems.push(format!("{at}: two mounts have this path; change one of them"));
        }
        match pod.volumes.iter().find(|volume| volume.name == mount.name) {
            None => problems.push(format!(
                "{at}: unknown volume {:?}: add it to volumes, or correct the name",
                mount.name
            )),
            Some(volume) if mount.read_only == Some(false) && volume.empty_dir.is_none() => {
                problems.push(format!("{at}: only an emptyDir can be written: remove readOnly"));
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(pod: Value) -> Vec<String> {
        let mut found = Vec::new();
        add_problems("spec", &serde_json::from_value(pod).unwrap(), &mut found);
        found
    }

    #[test]
    fn all_problems_of_containers_are_reported() {
        let found = messages(json!({"image": "nginx:1",
        "volumes": [{"name": "keys", "mountPath": "/k", "secret": {"secretName": "k"}}, {"name": "work", "emptyDir": {}}],
        "sidecars": [
            {"name": "app", "image": "a b"},
            {"name": "B", "image": "b", "probes": {"readiness": {"periodSeconds": 1}}, "envFrom": [{}]}],
        "initContainers": [
            {"name": "a", "image": "a", "mounts": [
                {"name": "none", "mountPath": "/a"}, {"name": "keys", "mountPath": "/a", "readOnly": false}]},
            {"name": "a", "image": "a", "mounts": [{"name": "keys", "mountPath": "a/"}]}]}));
        insta::assert_snapshot!(found.join("\n"), @r#"
        spec.sidecars[app]: two containers have this name; rename one of them
        spec.sidecars[app].image: invalid image "a b": write it like nginx or ghcr.io/acme/shop:1.4
        spec.sidecars[B]: invalid name: write it like migrate
        spec.sidecars[B].envFrom: each entry needs exactly one of configMapRef and secretRef
        spec.initContainers[a].mounts[/a]: unknown volume "none": add it to volumes, or correct the name
        spec.initContainers[a].mounts[/a]: two mounts have this path; change one of them
        spec.initContainers[a].mounts[/a]: only an emptyDir can be written: remove readOnly
        spec.initContainers[a]: two containers have this name; rename one of them
        spec.initContainers[a].mounts[a/]: invalid path "a/": write it like /etc/nginx/conf.d
        spec.sidecars[B].probes.readiness: a probe needs exactly one of httpGet, tcpSocket, grpc and exec
        spec.volumes[work]: missing mountPath: set it, or add the volume to the mounts of an init container or a sidecar
        "#);
        let good = json!({"image": "nginx:1", "volumes": [{"name": "work", "emptyDir": {}}],
            "initContainers": [{"name": "a", "image": "a", "mounts": [{"name": "work", "mountPath": "/a"}]}],
            "sidecars": [{"name": "b", "image": "b", "mounts": [{"name": "work", "mountPath": "/a", "readOnly": true}]}]});
        assert_eq!(messages(good), [""; 0]);
    }
}
