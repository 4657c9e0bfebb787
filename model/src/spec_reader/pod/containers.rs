//! Reads init containers and sidecars.

use std::collections::BTreeSet;

use crd::{Mount, OtherContainer, Sidecar, Volume};
use serde_json::{Value, json};

use super::{env, health, items, policy, resources, text};
use crate::desired::CONTAINER;
use crate::spec_reader::UnmappedField;
use crate::valid::{is_label, is_mount_path};

/// The maximum number of init containers, and of sidecars.
const MAX: usize = 8;

/// The init containers and sidecars of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Others {
    /// The init containers.
    pub init_containers: Vec<OtherContainer>,
    /// The sidecars.
    pub sidecars: Vec<Sidecar>,
    /// The fields of their probes that can't be expressed.
    pub unmapped: Vec<UnmappedField>,
}

/// Returns the init containers that a spec can express, sidecars included: those with a name that it can have, in the order in
/// which the operator writes them. A sidecar that starts after an init container is not one of them.
pub(super) fn expressible(spec: &Value) -> impl Iterator<Item = &Value> {
    let mut names = BTreeSet::from([CONTAINER]);
    let (mut sidecars, mut inits) = (0, 0);
    items(&spec["initContainers"]).filter(move |container| {
        let name = container["name"].as_str().unwrap_or_default();
        let comes_late = is_sidecar(container) && inits > 0;
        if comes_late || !is_label(name) || !names.insert(name) {
            return false;
        }
        let count: &mut usize = if is_sidecar(container) {
            &mut sidecars
        } else {
            &mut inits
        };
        *count = count.saturating_add(1);
        *count <= MAX
    })
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// Reads the containers that a spec can express. `volumes` are those that were read.
pub(super) fn read(spec: &Value, volumes: &[Volume]) -> Others {
    let mut others = Others::default();
    for live in expressible(spec) {
        let container = OtherContainer {
            name: text(&live["name"]),
            image: text(&live["image"]),
            command: items(&live["command"]).map(text).collect(),
            args: items(&live["args"]).map(text).collect(),
            env: items(&live["env"]).filter_map(env::variable).collect(),
            env_from: items(&live["envFrom"]).filter_map(env::object).collect(),
            resources: resources(&live["resources"]),
            image_pull_policy: policy(live),
            mounts: mounts(live, volumes),
        };
        if !is_sidecar(live) {
            others.init_containers.push(container);
            continue;
        }
        let probes = health::read_probes(live);
        let at = format!("spec.initContainers[{}]", container.name);
        others
            .unmapped
            .extend(probes.unmapped.into_iter().map(|rest| rest.below(&at)));
        others.sidecars.push(Sidecar {
            container,
            probes: probes.value,
        });
    }
    others
}

/// Returns the mounts of a container that a spec can express: of a volume that was read, as a whole.
fn mounts(container: &Value, volumes: &[Volume]) -> Vec<Mount> {
    let mut paths = BTreeSet::new();
    let mounts = items(&container["volumeMounts"]).filter_map(|mount| {
        let volume = volumes.iter().find(|volume| mount["name"] == *volume.name)?;
        let path = whole(mount).filter(|path| paths.insert(path.clone()))?;
        Some(Mount {
            name: volume.name.clone(),
            mount_path: path,
            read_only: (mount["readOnly"] == true && volume.empty_dir.is_some()).then_some(true),
        })
    });
    mounts.collect()
}

/// Returns the path of a mount of a whole volume. `None` if it is a part of one, or if a spec can't express the path.
pub(super) fn whole(mount: &Value) -> Option<String> {
    let is_of_a_part = ["subPath", "subPathExpr"].iter().any(|field| mount[*field].is_string());
    Some(text(&mount["mountPath"])).filter(|path| !is_of_a_part && is_mount_path(path))
}

/// Prepares the containers that were read for a comparison with the rendered ones: without probes, which are compared apart,
/// and without settings that the pod has, too.
pub(super) fn normalize(live: &mut Value, ours: &mut Value) {
    let pod = live["securityContext"].clone();
    let known = ours["initContainers"].as_array_mut().into_iter().flatten();
    for ours in known {
        let mut containers = live["initContainers"].as_array_mut().into_iter().flatten();
        let Some(fields) = containers
            .find(|live| live["name"] == ours["name"])
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        fields.retain(|field, _| !field.ends_with("Probe"));
        // The default of the API server.
        if fields.get("terminationMessagePolicy") == Some(&json!("File")) {
            ours["terminationMessagePolicy"] = json!("File");
        }
        if let Some(Value::Object(own)) = fields.get_mut("securityContext") {
            own.retain(|field, value| pod.get(field) != Some(value));
        }
    }
}
