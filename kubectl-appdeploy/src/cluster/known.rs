//! The objects that a watch has reported so far.

use std::collections::BTreeMap;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};

/// Objects by namespace and name.
type Objects<K> = BTreeMap<(String, String), K>;

/// The objects that a watch has reported.
pub struct ObjectCache<K> {
    objects: Objects<K>,
    /// Those of the list that is being read.
    listed: Objects<K>,
    complete: bool,
}

impl<K> Default for ObjectCache<K> {
    fn default() -> Self {
        Self {
            objects: Objects::new(),
            listed: Objects::new(),
            complete: false,
        }
    }
}

impl<K: Resource + Clone> ObjectCache<K> {
    /// Applies an event and returns the changed objects, each with whether it was deleted.
    pub fn take(&mut self, event: Event<K>) -> Vec<(K, bool)> {
        let key = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(key(&object), object);
                Vec::new()
            }
            Event::InitDone => {
                // A watch that was interrupted lists again: only what differs is news.
                let before = std::mem::replace(&mut self.objects, std::mem::take(&mut self.listed));
                self.complete = true;
                let gone = before
                    .iter()
                    .filter(|(key, _)| !self.objects.contains_key(*key))
                    .map(|(_, object)| (object.clone(), true));
                let new = self.objects.iter().filter(|(key, object)| {
                    before.get(*key).map(kube::ResourceExt::resource_version) != Some(object.resource_version())
                });
                gone.chain(new.map(|(_, object)| (object.clone(), false))).collect()
            }
            Event::Apply(object) => {
                self.objects.insert(key(&object), object.clone());
                vec![(object, false)]
            }
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
                vec![(object, true)]
            }
        }
    }

    /// Whether a whole list has been read.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the objects, in the order of their names.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.objects.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(name: &str, version: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}})).unwrap()
    }

    #[test]
    fn relist_reports_only_differences() {
        let mut known = ObjectCache::default();
        for event in [
            Event::Init,
            Event::InitApply(pod("a", "1")),
            Event::InitApply(pod("b", "1")),
        ] {
            assert!(known.take(event).is_empty() && !known.is_complete() && known.is_empty());
        }
        assert_eq!(known.take(Event::InitDone).len(), 2);
        for event in [Event::Init, Event::InitApply(pod("a", "2"))] {
            assert!(known.take(event).is_empty());
            assert_eq!(known.all().count(), 2);
        }
        let news = known.take(Event::InitDone);
        assert_eq!(news, [(pod("b", "1"), true), (pod("a", "2"), false)]);
    }
}
