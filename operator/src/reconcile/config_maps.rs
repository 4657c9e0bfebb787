//! Reads the ConfigMaps whose changes restart pods: each one when its version differs from the noted one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crd::Kind;
use kube::api::GetParams;
use kube::core::{ObjectMeta, Request};
use model::Failure;
use model::config_maps::{ConfigNotes, ContentHash, Found, UsesConfigMaps, used};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::sync::Semaphore;

use super::status_writer::ReconcileContext;
use crate::cache::Item;
use crate::call::{CallError, Caller};
use crate::key::Key;
use crate::object_state::ObjectStates;
use crate::primary::Primary;
use crate::stores::Stores;
use crate::stores::config_maps::Version;

/// How many ConfigMaps of one kind of object are in memory at a time. Each has up to 1 MiB, which is several as JSON.
const CONCURRENT_READS: usize = 2;

/// Reads ConfigMaps for the objects of one kind.
pub struct ConfigMapReader<K: Primary> {
    kind: Kind,
    caller: Caller,
    stores: Arc<Stores>,
    states: Arc<ObjectStates<K::Status>>,
    /// Whether the operator watches ConfigMaps.
    pub is_watched: bool,
    reads: Semaphore,
}

impl<K: Primary + UsesConfigMaps> ConfigMapReader<K> {
    /// Returns a reader that keeps what it notes in these states.
    #[must_use]
    pub const fn new(
        kind: Kind,
        caller: Caller,
        stores: Arc<Stores>,
        states: Arc<ObjectStates<K::Status>>,
        is_watched: bool,
    ) -> Self {
        Self {
            kind,
            caller,
            stores,
            states,
            is_watched,
            reads: Semaphore::const_new(CONCURRENT_READS),
        }
    }

    /// Returns an object with the current notes in its status, and why they may be outdated.
    pub async fn refresh(&self, context: &ReconcileContext<K>) -> (Arc<K>, Option<Failure>) {
        let ReconcileContext {
            key,
            object,
            unreadable,
        } = context;
        if unreadable.is_some() {
            return (object.clone(), None);
        }
        let is_deleted = object.meta().deletion_timestamp.is_some();
        let stored = object.notes();
        let kept = self.states.with(key, |state| state.config_notes.clone()).flatten();
        let before = kept.map_or_else(|| stored.clone(), |kept| *kept);
        let pod = object.pod();
        let names = used(pod);
        let is_used = self.is_watched && !is_deleted && pod.restarts_on_config_change();
        let registered: Vec<&str> = if is_used {
            names.keys().copied().collect()
        } else {
            Vec::new()
        };
        // Before the versions are read: a later change wakes the object.
        self.stores.config_maps.set_used(self.kind, key, &registered);
        let (found, failure) = if is_used {
            self.find(key, &registered, &before).await
        } else {
            (BTreeMap::new(), None)
        };
        let after = if self.is_watched || !pod.restarts_on_config_change() {
            before.next(pod, &found)
        } else {
            before
        };
        self.states.with(key, |state| {
            state.config_notes = (after != ConfigNotes::default()).then(|| Box::new(after.clone()));
        });
        if after == stored {
            return (object.clone(), failure);
        }
        let mut object = (**object).clone();
        object.set_notes(after);
        (Arc::new(object), failure)
    }

    /// Forgets an object that was deleted.
    pub fn forget(&self, key: &Key) {
        self.stores.config_maps.set_used(self.kind, key, &[]);
    }

    /// Reads the ConfigMaps that differ from what is noted.
    async fn find(&self, key: &Key, names: &[&str], noted: &ConfigNotes) -> (BTreeMap<String, Found>, Option<Failure>) {
        let versions = &self.stores.config_maps.versions;
        let mut found = BTreeMap::new();
        if names.is_empty() {
            return (found, None);
        }
        // Another controller runs the watch, and may not have listed yet.
        versions.health.settled().await;
        if let Some(why) = versions.health.unseen(&key.namespace) {
            let resource = "configmaps";
            return (found, Some(Failure::WatchFailed { resource, why }));
        }
        for name in names {
            let result = match versions.cache.get(&Key::new(&key.namespace, name)) {
                None => Ok(Found::Absent),
                Some(version) if noted.differs(name, &version.to_string()) => self.read(key, name).await,
                Some(_) => continue,
            };
            match result {
                Ok(result) => found.insert((*name).to_owned(), result),
                Err(failure) => return (found, Some(failure)),
            };
        }
        (found, None)
    }

    /// Reads one ConfigMap, and keeps only the hash of its content.
    async fn read(&self, user: &Key, name: &str) -> Result<Found, Failure> {
        let _permit = self.reads.acquire().await;
        let path = format!("/api/v1/namespaces/{}/configmaps", user.namespace);
        let request = Request::new(path).get(name, &GetParams::default());
        let answer = self.caller.send::<Content>("get", "configmaps", request).await;
        let answer = answer.and_then(|content| {
            let version = content.metadata.resource_version.clone();
            let is_it = content.metadata.name.as_deref() == Some(name);
            version
                .filter(|_| is_it)
                .map(|version| (version, content))
                .ok_or_else(|| CallError::Lost("the answer is about another object, or none".to_owned()))
        });
        match answer {
            Ok((version, content)) => {
                let key = Key::new(&user.namespace, name);
                let hash = content.hash();
                let known = Version::of(&version);
                self.stores.config_maps.versions.cache.upsert(Item {
                    owners: [key.clone()].into(),
                    key,
                    version,
                    value: known,
                });
                Ok(Found::Content {
                    version: known.to_string(),
                    hash,
                })
            }
            // The watch will report the deletion.
            Err(CallError::Refused(status)) if status.is_not_found() => Ok(Found::Absent),
            Err(error) => Err(error.failure("get", "ConfigMap", name)),
        }
    }
}

/// A ConfigMap whose content was hashed while it was parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    metadata: ObjectMeta,
    data: Option<Entries>,
    binary_data: Option<Entries>,
}

impl Content {
    fn hash(self) -> String {
        let mut hash = ContentHash::default();
        for Entries(part) in self.data.into_iter().chain(self.binary_data) {
            hash.extend(part);
        }
        hash.finish()
    }
}

/// The hash of some entries.
struct Entries(ContentHash);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hashing;

        impl<'de> Visitor<'de> for Hashing {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the entries of a ConfigMap")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut hash = ContentHash::default();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    hash.add(&key, &value);
                }
                Ok(Entries(hash))
            }
        }

        deserializer.deserialize_map(Hashing)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hash(fields: Value) -> String {
        let mut object = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_str::<Content>(&object.to_string()).unwrap().hash()
    }

    #[test]
    fn hash_is_of_the_content_only() {
        let plain = hash(json!({"data": {"a": "1", "b": "<2>"}}));
        assert_eq!(
            hash(json!({"data": {"b": "<2>", "a": "1"}, "immutable": true, "binaryData": null})),
            plain
        );
        let escaped = r#"{"metadata": {"labels": {"x": "y"}}, "data": {"a": "1", "b": "\u003c2>"}}"#;
        assert_eq!(serde_json::from_str::<Content>(escaped).unwrap().hash(), plain);
        assert_ne!(hash(json!({"data": {"a": "1", "b": "<3>"}})), plain);
        assert_ne!(hash(json!({"data": {"a": "1"}})), plain);
        assert_ne!(hash(json!({})), hash(json!({"binaryData": {"a": "AA=="}})));
    }
}
