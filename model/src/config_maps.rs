//! Restarts of pods after a change of a ConfigMap that they use (docs/adr/0019).
//!
//! The status notes the version and a hash of the content of each ConfigMap, so that a ConfigMap is read only if its version
//! differs from the noted one, also after a restart of the operator. Only a change of the content that was noted replaces the pods: a ConfigMap
//! that is used for the first time does not.

use std::collections::BTreeMap;

use crd::{AppDeploy, ConfigMapStatus, PodFields, PodSet};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::Invalid;
use crate::admit::Admitted;
use crate::valid::is_object_name;

/// The maximum number of ConfigMaps of an object whose changes restart it. The status has an entry for each.
pub const MAX_CONFIG_MAPS: usize = 64;

/// What the status notes of the ConfigMaps of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigNotes {
    /// The ConfigMaps.
    pub config_maps: Vec<ConfigMapStatus>,
    /// Their hash when the content of one of them last changed. A new value replaces the pods.
    pub hash: Option<String>,
}

/// What was found of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It does not exist.
    Absent,
    /// It exists with this content.
    Content {
        /// Its `resourceVersion`.
        version: String,
        /// The hash of its content.
        hash: String,
    },
}

/// A kind whose pods can be restarted after a change of a ConfigMap.
pub trait UsesConfigMaps: Admitted {
    /// Returns what its status notes.
    fn notes(&self) -> ConfigNotes;
    /// Replaces what its status notes.
    fn set_notes(&mut self, notes: ConfigNotes);
}

macro_rules! uses_config_maps {
    ($kind:ty) => {
        impl UsesConfigMaps for $kind {
            fn notes(&self) -> ConfigNotes {
                let status = self.status.as_ref();
                ConfigNotes {
                    config_maps: status
                        .map(|status| status.config_maps.clone())
                        .unwrap_or_default(),
                    hash: status.and_then(|status| status.config_hash.clone()),
                }
            }

            fn set_notes(&mut self, notes: ConfigNotes) {
                let status = self.status.get_or_insert_default();
                status.config_maps = notes.config_maps;
                status.config_hash = notes.hash;
            }
        }
    };
}

uses_config_maps!(AppDeploy);
uses_config_maps!(PodSet);

/// Returns the ConfigMaps that the pods use, each with whether all references to it are optional. Those of queues are not
/// included: they change with the queue, which has its own status.
#[must_use]
pub fn used(pod: &PodFields) -> BTreeMap<&str, bool> {
    let others = || pod.other_containers().map(|(_, container)| container);
    let env = pod
        .container
        .env
        .iter()
        .chain(others().flat_map(|container| &container.env));
    let keys = env.filter_map(|var| {
        let key = var.value_from.as_ref()?.config_map_key_ref.as_ref()?;
        Some((&*key.name, key.optional))
    });
    let env_from = pod.container.env_from.iter();
    let env_from = env_from.chain(others().flat_map(|container| &container.env_from));
    let objects = env_from.filter_map(|source| {
        let object = source.config_map_ref.as_ref()?;
        Some((&*object.name, object.optional))
    });
    let volumes = pod.volumes.iter().filter_map(|volume| {
        let map = volume.config_map.as_ref()?;
        Some((&*map.name, map.optional))
    });
    let mut used = BTreeMap::new();
    for (name, optional) in keys.chain(objects).chain(volumes) {
        // Other names can't be part of a URL.
        if is_object_name(name) {
            *used.entry(name).or_insert(true) &= optional == Some(true);
        }
    }
    used
}

/// Rejects a spec whose pods are to be restarted, if the operator does not watch ConfigMaps, or if there are too many of
/// them. `at` is the path of the fields of the pod.
///
/// # Errors
/// Returns a message that says what to change.
pub fn check(pod: &PodFields, at: &str, is_watched: bool) -> Result<(), Invalid> {
    if !pod.restarts_on_config_change() {
        return Ok(());
    }
    if !is_watched {
        return Err(Invalid(vec![format!(
            "{at}.onConfigChange: the operator does not watch ConfigMaps: remove the field, or run the operator with \
             --watch-configmaps (kubectl appdeploy install --watch-configmaps)"
        )]));
    }
    let count = used(pod).len();
    if count > MAX_CONFIG_MAPS {
        return Err(Invalid(vec![format!(
            "{at}.onConfigChange: {count} ConfigMaps are used, and at most {MAX_CONFIG_MAPS} are allowed: merge some of them, \
             or remove the field"
        )]));
    }
    Ok(())
}

impl ConfigNotes {
    /// Returns what is noted of a ConfigMap.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&ConfigMapStatus> {
        self.config_maps.iter().find(|noted| noted.name == name)
    }

    /// Whether a ConfigMap must be read: it exists at this version, which is not the noted one.
    #[must_use]
    pub fn differs(&self, name: &str, version: &str) -> bool {
        self.of(name).and_then(|noted| noted.resource_version.as_deref()) != Some(version)
    }

    /// Returns the notes after some ConfigMaps were found to differ. Nothing else is known to have changed.
    ///
    /// A ConfigMap that is used for the first time does not change the hash: the pods start with its content. Neither does
    /// one that was deleted, unless all references to it are optional: the pods keep its content, and new ones would not start.
    #[must_use]
    pub fn next(&self, pod: &PodFields, found: &BTreeMap<String, Found>) -> Self {
        if !pod.restarts_on_config_change() {
            return Self {
                config_maps: Vec::new(),
                hash: self.hash.clone(),
            };
        }
        let (mut config_maps, mut has_changed) = (Vec::new(), false);
        for (name, is_optional) in used(pod) {
            let before = self.of(name);
            let after = match found.get(name) {
                Some(Found::Content { version, hash }) => Some(ConfigMapStatus {
                    name: name.to_owned(),
                    resource_version: Some(version.clone()),
                    hash: Some(hash.clone()),
                }),
                Some(Found::Absent) if is_optional => Some(ConfigMapStatus {
                    name: name.to_owned(),
                    ..ConfigMapStatus::default()
                }),
                Some(Found::Absent) | None => before.cloned(),
            };
            let hash = after.as_ref().map(|after| &after.hash);
            has_changed |= before.is_some_and(|before| Some(&before.hash) != hash);
            config_maps.extend(after);
        }
        let hash = if has_changed {
            Some(combined(&config_maps))
        } else {
            self.hash.clone()
        };
        Self { config_maps, hash }
    }
}

/// Returns the hash of ConfigMaps, which are sorted by name.
fn combined(config_maps: &[ConfigMapStatus]) -> String {
    let mut hasher = Xxh3::new();
    for ConfigMapStatus { name, hash, .. } in config_maps {
        for part in [name, hash.as_deref().unwrap_or_default()] {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
    }
    format!("{:016x}", hasher.digest())
}

/// Hashes the content of a ConfigMap entry by entry, so that it need not be in memory as a whole. The order does not matter.
#[derive(Clone, Debug, Default)]
pub struct ContentHash(Vec<u64>);

impl ContentHash {
    /// Adds an entry of `data` or `binaryData`, which have no key in common.
    pub fn add(&mut self, key: &str, value: &str) {
        self.0
            .push(xxh3_64(key.as_bytes()) ^ xxh3_64(value.as_bytes()).rotate_left(32));
    }

    /// Adds the entries of another hash.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the hash. It is the same in all versions of the operator.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0.sort_unstable();
        let mut hasher = Xxh3::new();
        for entry in self.0 {
            hasher.update(&entry.to_le_bytes());
        }
        format!("{:016x}", hasher.digest())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(fields: Value) -> PodFields {
        let mut pod = json!({"image": "nginx", "onConfigChange": "Restart"});
        pod.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(pod).unwrap()
    }

    fn content(version: &str, hash: &str) -> Found {
        Found::Content {
            version: version.to_owned(),
            hash: hash.to_owned(),
        }
    }

    fn found<const N: usize>(all: [(&str, Found); N]) -> BTreeMap<String, Found> {
        all.map(|(name, found)| (name.to_owned(), found)).into()
    }

    #[test]
    fn volumes_and_variables_use_config_maps() {
        let pod = pod(json!({
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k", "optional": true}}},
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "b", "optional": true}}, {"secretRef": {"name": "s"}}],
            "volumes": [{"name": "c", "mountPath": "/c", "configMap": {"name": "c"}},
                        {"name": "b", "mountPath": "/b", "configMap": {"name": "b"}},
                        {"name": "d", "mountPath": "/d", "configMap": {"name": "../secrets/s"}}],
            "queues": [{"name": "orders"}],
            "initContainers": [{"name": "i", "image": "i", "envFrom": [{"configMapRef": {"name": "e", "optional": true}}]}],
            "sidecars": [{"name": "s", "image": "s", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}]}],
        }));
        assert_eq!(
            used(&pod),
            BTreeMap::from([("a", false), ("b", false), ("c", false), ("e", true)])
        );
    }

    #[test]
    fn only_a_change_of_noted_content_changes_the_hash() {
        let pod = pod(json!({"envFrom": [{"configMapRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}]}));
        let first = ConfigNotes::default().next(&pod, &found([("a", content("1", "x")), ("b", content("2", "y"))]));
        assert_eq!(
            (first.config_maps.len(), &first.hash),
            (2, &None),
            "the pods start with this content"
        );
        assert!(!first.differs("a", "1") && first.differs("a", "3") && first.differs("c", "1"));
        assert_eq!(first.next(&pod, &BTreeMap::new()), first);

        let touched = first.next(&pod, &found([("a", content("3", "x"))]));
        assert_eq!(
            (touched.hash.clone(), touched.differs("a", "3")),
            (None, false),
            "only its metadata has changed"
        );

        let changed = touched.next(&pod, &found([("b", content("4", "z"))]));
        insta::assert_snapshot!(changed.hash.as_deref().unwrap(), @"231e18f51eb38d83");
        let back = changed.next(&pod, &found([("b", content("5", "y"))]));
        assert!(back.hash.is_some() && back.hash != changed.hash);
    }

    #[test]
    fn deleted_config_map_counts_only_if_it_is_optional() {
        let uses = |optional: bool| pod(json!({"envFrom": [{"configMapRef": {"name": "a", "optional": optional}}]}));
        for is_optional in [true, false] {
            let pod = uses(is_optional);
            let there = ConfigNotes::default().next(&pod, &found([("a", content("1", "x"))]));
            let deleted = there.next(&pod, &found([("a", Found::Absent)]));
            assert_eq!(deleted.hash.is_some(), is_optional);
            let again = deleted.next(&pod, &found([("a", content("2", "x"))]));
            assert_eq!(again.hash != deleted.hash, is_optional);
            let absent = ConfigNotes::default().next(&pod, &found([("a", Found::Absent)]));
            assert_eq!(absent.hash, None);
            let created = absent.next(&pod, &found([("a", content("1", "x"))]));
            assert_eq!(
                created.hash.is_some(),
                is_optional,
                "pods wait for one that is not optional"
            );
        }
    }

    #[test]
    fn hash_is_kept_when_changes_no_longer_count() {
        let used = json!({"envFrom": [{"configMapRef": {"name": "a"}}]});
        let notes = ConfigNotes::default()
            .next(&pod(used.clone()), &found([("a", content("1", "x"))]))
            .next(&pod(used.clone()), &found([("a", content("2", "y"))]));
        let mut ignoring = pod(used);
        ignoring.on_config_change = None;
        let after = notes.next(&ignoring, &BTreeMap::new());
        assert_eq!(after.config_maps, []);
        assert_eq!(
            (after.hash.is_some(), &after.hash),
            (true, &notes.hash),
            "no pod is replaced"
        );
    }

    #[test]
    fn restarts_need_an_operator_that_watches_config_maps() {
        let restart = pod(json!({}));
        assert_eq!(check(&restart, "spec", true), Ok(()));
        insta::assert_snapshot!(check(&restart, "spec", false).unwrap_err(), @"spec.onConfigChange: the operator does not watch ConfigMaps: remove the field, or run the operator with --watch-configmaps (kubectl appdeploy install --watch-configmaps)");
        let many: Vec<Value> = (0..65)
            .map(|n| json!({"configMapRef": {"name": format!("c{n}")}}))
            .collect();
        insta::assert_snapshot!(check(&pod(json!({"envFrom": many})), "spec.template", true).unwrap_err(), @"spec.template.onConfigChange: 65 ConfigMaps are used, and at most 64 are allowed: merge some of them, or remove the field");
        let ignore = serde_json::from_value(json!({"image": "nginx", "onConfigChange": "Ignore"})).unwrap();
        assert_eq!(check(&ignore, "spec", false), Ok(()));
    }

    /// The hash is stored in statuses that older versions have written.
    #[test]
    fn hash_of_content_never_changes() {
        let mut hash = ContentHash::default();
        hash.add("a", "1");
        hash.add("b", "2");
        let mut other = ContentHash::default();
        other.add("b", "2");
        other.add("a", "1");
        let hash = hash.finish();
        assert_eq!(hash, other.finish());
        insta::assert_snapshot!(hash, @"fe18de0335911ed8");
    }
}
