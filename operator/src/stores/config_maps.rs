//! The versions of all ConfigMaps, and the objects that are reconciled when one changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crd::Kind;
use xxhash_rust::xxh3::xxh3_64;

use super::Store;
use crate::cache::{Equivalent, Item};
use crate::informer::Wake;
use crate::key::Key;
use crate::queue::Priority;
use crate::reduced::{Parts, Reduce};

/// The `resourceVersion` of a ConfigMap: all that is kept of it, because most belong to other applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Reads a `resourceVersion`. Those of Kubernetes are numbers (KEP-5504).
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(text.parse().unwrap_or_else(|_| xxh3_64(text.as_bytes())))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Equivalent for Version {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

/// The metadata of ConfigMaps.
#[derive(Debug)]
pub struct ConfigMapVersions;

impl Reduce for ConfigMapVersions {
    type Value = Version;

    const ONLY_METADATA: bool = true;

    fn resource() -> &'static str {
        "configmap-versions"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Version>> {
        let key = Key::of(&object.meta);
        let version = object.meta.resource_version?;
        Some(Item {
            owners: [key.clone()].into(),
            key,
            value: Version::of(&version),
            version,
        })
    }
}

/// The versions of ConfigMaps, with the objects that use them.
#[derive(Default)]
pub struct ConfigMaps {
    /// The versions.
    pub versions: Arc<Store<Version>>,
    users: Mutex<Users>,
}

impl std::fmt::Debug for ConfigMaps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ConfigMaps").field(&self.versions).finish()
    }
}

type User = (Kind, Key);

#[derive(Default)]
struct Users {
    /// The users of each ConfigMap.
    of: HashMap<Key, BTreeSet<User>>,
    /// The ConfigMaps of each user.
    used: HashMap<User, Box<[Key]>>,
    /// Adds objects of a kind to the queue of their controller.
    wakes: BTreeMap<Kind, Wake>,
}

impl ConfigMaps {
    /// Registers the queue of a kind.
    pub fn wake_with(&self, kind: Kind, wake: Wake) {
        self.users().wakes.insert(kind, wake);
    }

    /// Replaces the ConfigMaps whose changes concern an object.
    pub fn set_used(&self, kind: Kind, object: &Key, names: &[&str]) {
        let mut index = self.users();
        let user = (kind, object.clone());
        if names.is_empty() && !index.used.contains_key(&user) {
            return;
        }
        for former in index.used.remove(&user).unwrap_or_default() {
            if let Some(all) = index.of.get_mut(&former) {
                all.remove(&user);
                if all.is_empty() {
                    index.of.remove(&former);
                }
            }
        }
        let maps: Box<[Key]> = names.iter().map(|name| Key::new(&object.namespace, name)).collect();
        for key in &maps {
            index.of.entry(key.clone()).or_default().insert(user.clone());
        }
        if !maps.is_empty() {
            index.used.insert(user, maps);
        }
    }

    /// Queues the users of ConfigMaps that have changed.
    pub fn wake(&self, changed: &[Key], priority: Priority) {
        let woken: Vec<(Wake, Vec<Key>)> = {
            let users = self.users();
            let concerned = changed.iter().filter_map(|key| users.of.get(key)).flatten();
            let mut by_kind: BTreeMap<Kind, Vec<Key>> = BTreeMap::new();
            for (kind, object) in concerned {
                by_kind.entry(*kind).or_default().push(object.clone());
            }
            let wakes = &users.wakes;
            by_kind
                .into_iter()
                .filter_map(|(kind, objects)| Some((wakes.get(&kind)?.clone(), objects)))
                .collect()
        };
        for (wake, objects) in woken {
            wake(objects, priority.into());
        }
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        // Nothing under the lock panics.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_users_of_a_config_map_are_woken() {
        let maps = ConfigMaps::default();
        let woken: Arc<Mutex<Vec<(Kind, Key)>>> = Arc::default();
        for kind in [Kind::AppDeploy, Kind::PodSet] {
            let woken = woken.clone();
            let wake = move |keys: Vec<Key>, _| woken.lock().unwrap().extend(keys.into_iter().map(|key| (kind, key)));
            maps.wake_with(kind, Arc::new(wake));
        }
        let change = |namespace: &str, name: &str| {
            maps.wake(&[Key::new(namespace, name)], Priority::Related);
            std::mem::take(&mut *woken.lock().unwrap())
        };
        let key = Key::new("shop", "web");
        maps.set_used(Kind::AppDeploy, &key, &["a", "b"]);
        maps.set_used(Kind::PodSet, &key, &["b"]);
        assert_eq!(change("shop", "a"), [(Kind::AppDeploy, key.clone())]);
        assert_eq!(
            change("shop", "b"),
            [(Kind::AppDeploy, key.clone()), (Kind::PodSet, key.clone())]
        );
        assert_eq!((change("shop", "c"), change("blog", "a")), (vec![], vec![]));
        maps.set_used(Kind::AppDeploy, &key, &["c"]);
        assert_eq!(
            (change("shop", "a"), change("shop", "c")),
            (vec![], vec![(Kind::AppDeploy, key.clone())])
        );
        maps.set_used(Kind::AppDeploy, &key, &[]);
        maps.set_used(Kind::PodSet, &key, &[]);
        let users = maps.users();
        assert!(users.of.is_empty() && users.used.is_empty());
    }
}
