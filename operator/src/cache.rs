//! Caches the objects of one kind in a reduced form.
//!
//! Unlike kube's reflector, which keeps whole objects, it reports which objects disappeared between two lists, so that their owners
//! are reconciled also if an object was deleted while no watch was connected (docs/adr/0002).

mod members;
mod tombstones;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::key::Key;
use members::Members;
use tombstones::Tombstones;

/// A reduced object that can be compared with another version of it.
pub trait Equivalent {
    /// Whether a reconcile does the same with both versions. They may differ in what only later writes depend on, such as their
    /// `resourceVersion`.
    fn is_equivalent(&self, other: &Self) -> bool;
}

impl<T: Equivalent> Equivalent for Arc<T> {
    fn is_equivalent(&self, other: &Self) -> bool {
        (**self).is_equivalent(other)
    }
}

/// An object to store.
#[derive(Clone, Debug, PartialEq)]
pub struct Item<T> {
    /// Its own name.
    pub key: Key,
    /// The objects that it concerns: itself, or its possible owners.
    pub owners: BTreeSet<Key>,
    /// Its `resourceVersion`.
    pub version: String,
    /// The reduced object.
    pub value: T,
}

/// An object that was removed.
#[derive(Clone, Debug, PartialEq)]
pub struct Vanished<T> {
    /// Its own name.
    pub key: Key,
    /// The objects that it concerned.
    pub owners: Vec<Key>,
    /// The reduced object that was cached.
    pub value: T,
}

/// All objects of one kind.
#[derive(Debug)]
pub struct Cache<T> {
    inner: RwLock<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    items: HashMap<Key, Entry<T>>,
    members: Members,
    /// The versions at which objects were deleted, so that the late answer to a write does not bring one back.
    deleted: Tombstones,
}

#[derive(Debug)]
struct Entry<T> {
    /// `None` for an object that concerns only itself, as most do.
    owners: Option<Box<[Key]>>,
    version: u64,
    value: T,
}

impl<T> Entry<T> {
    fn owners<'a>(&'a self, key: &'a Key) -> &'a [Key] {
        self.owners.as_deref().unwrap_or(std::slice::from_ref(key))
    }
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                items: HashMap::new(),
                members: Members::default(),
                deleted: Tombstones::default(),
            }),
        }
    }
}

impl<T: Clone + Equivalent> Cache<T> {
    /// Stores an object from a watch, a list or the answer to a write. Returns the owners that it concerns, before and now; none
    /// if the cached version is equivalent or newer.
    pub fn upsert(&self, item: Item<T>) -> Vec<Key> {
        self.write().upsert(item, 0)
    }

    /// Returns the newest cached version. A list that begins now has no older version of a cached object, unless etcd was
    /// restored from a backup.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let inner = self.read();
        let versions = inner.items.values().map(|entry| entry.version);
        versions.chain(inner.deleted.versions()).max().unwrap_or_default()
    }

    /// Whether [`Self::upsert_listed`] would store this version of an object.
    #[must_use]
    pub fn is_news(&self, key: &Key, version: &str, newest: u64) -> bool {
        self.read().is_news(key, number(version), newest)
    }

    /// Stores an object from a list that began when [`Self::newest`] was `newest`. It replaces versions up to `newest` even if they
    /// are newer: etcd was restored from a backup then.
    pub fn upsert_listed(&self, item: Item<T>, newest: u64) -> Vec<Key> {
        self.write().upsert(item, newest)
    }

    /// Stores the answer to a delete, if the object is still cached. If it was deleted immediately, the watch reports that with the
    /// same version, perhaps before the answer.
    pub fn upsert_known(&self, item: Item<T>) {
        let mut inner = self.write();
        if inner.items.contains_key(&item.key) {
            inner.upsert(item, 0);
        }
    }

    /// Removes an object after a DELETE event or after it stopped matching the selector. Returns it, if it was cached.
    pub fn remove(&self, key: &Key, version: &str) -> Option<Vanished<T>> {
        let mut inner = self.write();
        let known = inner.items.get(key).map_or(0, |entry| entry.version);
        let version = number(version);
        if version != 0 && known > version {
            return None; // It was recreated, and that was reported first.
        }
        inner.deleted.insert(key.clone(), version.max(known));
        inner.evict(key)
    }

    /// Removes an object that a request has found deleted or replaced. Returns it, if it was cached.
    pub fn forget(&self, key: &Key) -> Option<Vanished<T>> {
        self.write().evict(key)
    }

    /// Removes an object if its value is the expected one: another object may have its name.
    pub fn forget_if(&self, key: &Key, is: impl FnOnce(&T) -> bool) {
        let mut inner = self.write();
        if inner.items.get(key).is_some_and(|entry| is(&entry.value)) {
            inner.evict(key);
        }
    }

    /// Changes the value of an object until a newer version is stored.
    pub fn amend(&self, key: &Key, change: impl FnOnce(&mut T)) {
        if let Some(entry) = self.write().items.get_mut(key) {
            change(&mut entry.value);
        }
    }

    /// Ends a list of a scope (a namespace, or all) that began when [`Self::newest`] was `newest`, and has this version. Removes and
    /// returns the objects that it lacks, except those created after it. A cached version that is newer than the list, and was cached
    /// before it began, is from before a restore of etcd.
    pub fn retain(
        &self,
        scope: Option<&str>,
        listed: &HashSet<Key>,
        newest: u64,
        list_version: &str,
    ) -> Vec<Vanished<T>> {
        let last = number(list_version).max(newest);
        let mut inner = self.write();
        let removed: Vec<Key> = inner
            .items
            .iter()
            .filter(|(key, entry)| key.is_in(scope) && !listed.contains(key) && entry.version <= last)
            .map(|(key, _)| key.clone())
            .collect();
        inner
            .deleted
            .retain(|key, version| !key.is_in(scope) || version > newest);
        removed.iter().filter_map(|key| inner.evict(key)).collect()
    }

    /// Returns the value of one object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<T> {
        self.read().items.get(key).map(|entry| entry.value.clone())
    }

    /// Returns an object, if this version of it is cached.
    #[must_use]
    pub fn item(&self, key: &Key, version: &str) -> Option<Item<T>> {
        let inner = self.read();
        let entry = inner.items.get(key)?;
        (entry.version != 0 && entry.version == number(version)).then(|| Item {
            key: key.clone(),
            owners: entry.owners(key).iter().cloned().collect(),
            version: version.to_owned(),
            value: entry.value.clone(),
        })
    }

    /// Returns all objects that concern an owner, by name.
    #[must_use]
    pub fn members(&self, owner: &Key) -> Vec<T> {
        let inner = self.read();
        inner
            .members_of(owner)
            .filter_map(|key| inner.items.get(key))
            .map(|entry| entry.value.clone())
            .collect()
    }

    /// Returns all objects that concern an owner, each with its own name.
    #[must_use]
    pub fn members_by_key(&self, owner: &Key) -> Vec<(Key, T)> {
        let inner = self.read();
        let keys = inner.members_of(owner);
        keys.filter_map(|key| Some((key.clone(), inner.items.get(key)?.value.clone())))
            .collect()
    }

    /// Returns all objects.
    #[must_use]
    pub fn all(&self) -> Vec<(Key, T)> {
        self.read()
            .items
            .iter()
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect()
    }

    /// Calls `read` with each value, without a copy. `read` must not use this cache.
    pub fn for_each(&self, read: impl FnMut(&T)) {
        self.read().items.values().map(|entry| &entry.value).for_each(read);
    }

    /// Returns the keys of all objects.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.read().items.keys().cloned().collect()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().items.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // Nothing that can panic runs under the lock, so its data is consistent even if it is poisoned.
    fn read(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Equivalent> Inner<T> {
    fn members_of<'a>(&'a self, owner: &'a Key) -> impl Iterator<Item = &'a Key> {
        let itself = self.items.get(owner);
        let itself = itself.is_some_and(|entry| entry.owners(owner).contains(owner));
        self.members.of(owner, itself)
    }

    /// Stores an object that is newer than the cached one, or whose cached version is at most `outdated`.
    fn upsert(&mut self, item: Item<T>, outdated: u64) -> Vec<Key> {
        let version = number(&item.version);
        if !self.is_news(&item.key, version, outdated) {
            return Vec::new();
        }
        self.deleted.remove(&item.key);
        if let Some(known) = self.items.get_mut(&item.key)
            && known.owners(&item.key).iter().eq(&item.owners)
            && known.value.is_equivalent(&item.value)
        {
            known.version = version;
            known.value = item.value;
            return Vec::new();
        }
        let before = self.evict(&item.key).map(|evicted| evicted.owners).unwrap_or_default();
        let left = before.into_iter().filter(|owner| !item.owners.contains(owner));
        let touched = left.chain(item.owners.iter().cloned()).collect();
        self.insert(item.key, item.owners, version, item.value);
        touched
    }

    /// Whether a version of an object is newer than the cached one, or the cached one is at most `outdated`.
    fn is_news(&self, key: &Key, version: u64, outdated: u64) -> bool {
        // A deletion has its own version. The same version means that the object exists, and has only lost the label by which the
        // watch selects.
        let counts_more = |known: u64| known > version && known > outdated;
        let replaces = |known: &Entry<T>| version == 0 || known.version != version && !counts_more(known.version);
        !self.deleted.get(key).is_some_and(counts_more) && self.items.get(key).is_none_or(replaces)
    }

    fn insert(&mut self, key: Key, owners: BTreeSet<Key>, version: u64, value: T) {
        let mut others = owners.iter().filter(|owner| **owner != key).peekable();
        let alone = others.peek().is_none() && !owners.is_empty();
        for owner in others {
            self.members.join(owner, &key);
        }
        let entry = Entry {
            owners: (!alone).then(|| owners.into_iter().collect()),
            version,
            value,
        };
        self.items.insert(key, entry);
    }

    fn evict(&mut self, key: &Key) -> Option<Vanished<T>> {
        let entry = self.items.remove(key)?;
        let owners = entry.owners(key).to_vec();
        for owner in owners.iter().filter(|owner| *owner != key) {
            self.members.leave(owner, key);
        }
        Some(Vanished {
            key: key.clone(),
            owners,
            value: entry.value,
        })
    }
}

/// Versions of one kind are growing numbers (KEP-5504, part of the API since 1.35). Any other version counts as new.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Equivalent for u64 {
        fn is_equivalent(&self, other: &Self) -> bool {
            self == other
        }
    }

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    fn item(name: &str, owner: &str, version: u64) -> Item<u64> {
        shared(name, [owner], version)
    }

    fn shared<const N: usize>(name: &str, owners: [&str; N], version: u64) -> Item<u64> {
        Item {
            key: key(name),
            owners: owners.map(key).into(),
            version: version.to_string(),
            value: version,
        }
    }

    fn gone(name: &str, owners: &[&str], value: u64) -> Vanished<u64> {
        Vanished {
            key: key(name),
            owners: owners.iter().map(|owner| key(owner)).collect(),
            value,
        }
    }

    #[test]
    fn watch_event_of_a_cached_write_wakes_no_owner() {
        let cache = Cache::default();
        assert_eq!(cache.upsert(item("web", "web", 7)), [key("web")]);
        assert_eq!(cache.upsert(item("web", "web", 7)), []);
        assert_eq!(cache.upsert(item("web", "web", 6)), []);
        assert_eq!(cache.get(&key("web")), Some(7));
    }

    #[test]
    fn item_is_the_version_that_is_asked_for() {
        let cache = Cache::default();
        let stored = shared("web", ["web", "shop"], 7);
        cache.upsert(stored.clone());
        assert_eq!(cache.item(&key("web"), "7"), Some(stored));
        assert_eq!(cache.item(&key("web"), "8"), None);
        assert_eq!(cache.item(&key("shop"), "7"), None);
        let unversioned = Item {
            version: "today".to_owned(),
            ..item("other", "other", 0)
        };
        cache.upsert(unversioned);
        assert_eq!(
            cache.item(&key("other"), "today"),
            None,
            "another version may not be a number, either"
        );
    }

    #[test]
    fn newer_version_with_an_equivalent_value_wakes_no_owner() {
        let cache = Cache::default();
        let touched = |name, owner, version| Item {
            value: 1,
            ..item(name, owner, version)
        };
        assert_eq!(cache.upsert(touched("web", "web", 7)), [key("web")]);
        assert_eq!(cache.upsert(touched("web", "web", 8)), []);
        assert_eq!(cache.newest(), 8, "the version advances");
        assert_eq!(cache.upsert(item("web", "web", 7)), [], "older than what is cached");
        assert_eq!(cache.upsert(touched("web", "shop", 9)), [key("web"), key("shop")]);
        assert_eq!(cache.upsert(item("web", "shop", 10)), [key("shop")]);
    }

    #[test]
    fn list_replaces_newer_versions_after_a_restore() {
        let cache = Cache::default();
        cache.upsert(item("web", "web", 7));
        cache.upsert(item("gone", "gone", 8));
        cache.remove(&key("gone"), "9");
        let newest = cache.newest();
        assert_eq!(newest, 9);
        assert_eq!(cache.upsert_listed(item("web", "web", 5), newest), [key("web")]);
        assert_eq!(cache.get(&key("web")), Some(5));
        assert_eq!(cache.upsert_listed(item("web", "web", 5), newest), [], "no news");
        assert_eq!(cache.upsert_listed(item("gone", "gone", 4), newest), [key("gone")]);
        // An object that was written during the list is newer than the list.
        cache.upsert(item("web", "web", 12));
        assert_eq!(cache.upsert_listed(item("web", "web", 6), newest), []);
        assert_eq!(cache.get(&key("web")), Some(12));
    }

    #[test]
    fn late_response_to_a_write_does_not_restore_a_deleted_object() {
        let cache = Cache::default();
        cache.upsert(item("web", "web", 7));
        assert_eq!(cache.remove(&key("web"), "9"), Some(gone("web", &["web"], 7)));
        assert_eq!(cache.upsert(item("web", "web", 8)), []);
        assert_eq!(cache.get(&key("web")), None);
        assert_eq!(cache.upsert(item("web", "web", 10)), [key("web")]);
    }

    /// A pod that has failed, or has no node, is deleted immediately.
    #[test]
    fn answer_to_a_delete_does_not_store_a_deleted_object() {
        let cache = Cache::default();
        cache.upsert(item("pod-1", "web", 7));
        cache.upsert_known(item("pod-1", "web", 8));
        assert_eq!(cache.members(&key("web")), [8]);
        assert_eq!(cache.remove(&key("pod-1"), "8"), Some(gone("pod-1", &["web"], 8)));
        cache.upsert_known(item("pod-1", "web", 8));
        assert_eq!(cache.members(&key("web")), [0; 0]);
    }

    #[test]
    fn object_that_only_lost_its_label_is_stored_again() {
        let cache = Cache::default();
        cache.upsert(item("web", "web", 7));
        assert_eq!(cache.remove(&key("web"), "9"), Some(gone("web", &["web"], 7)));
        assert_eq!(cache.upsert(item("web", "web", 9)), [key("web")]);
        assert_eq!(cache.get(&key("web")), Some(9));
    }

    #[test]
    fn late_delete_event_does_not_remove_a_recreated_object() {
        let cache = Cache::default();
        cache.upsert(item("web", "web", 10));
        assert_eq!(cache.remove(&key("web"), "9"), None);
        assert_eq!(cache.get(&key("web")), Some(10));
    }

    #[test]
    fn object_that_a_list_lacks_is_removed() {
        let cache = Cache::default();
        for name in ["a", "b", "c"] {
            cache.upsert(item(name, name, 1));
        }
        let listed = [key("a"), key("c")].into();
        assert_eq!(cache.retain(None, &listed, cache.newest(), "3"), [gone("b", &["b"], 1)]);
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn object_created_during_a_list_is_kept() {
        let cache = Cache::default();
        cache.upsert(item("a", "a", 1));
        cache.upsert(item("b", "b", 2));
        let newest = cache.newest();
        cache.upsert(item("new", "new", 7));
        cache.remove(&key("b"), "8");
        let listed = [key("b")].into();
        assert_eq!(
            cache.upsert_listed(item("b", "b", 2), newest),
            [],
            "deleted after the list"
        );
        assert_eq!(cache.retain(None, &listed, newest, "6"), [gone("a", &["a"], 1)]);
        assert_eq!(cache.get(&key("new")), Some(7));
        assert_eq!(cache.upsert(item("b", "b", 3)), [], "the late answer to a write");
    }

    #[test]
    fn object_created_and_deleted_during_a_list_is_removed() {
        let cache = Cache::default();
        cache.upsert(item("old", "old", 5));
        let newest = cache.newest();
        cache.upsert(item("new-1", "new-1", 7));
        cache.upsert(item("new-2", "new-2", 10));
        let listed = [key("old")].into();
        assert_eq!(cache.retain(None, &listed, newest, "9"), [gone("new-1", &["new-1"], 7)]);
        assert_eq!(cache.get(&key("new-2")), Some(10), "created after the list");
    }

    #[test]
    fn object_that_a_restored_list_lacks_is_removed() {
        let cache = Cache::default();
        cache.upsert(item("web", "web", 70));
        let newest = cache.newest();
        let restored = cache.retain(None, &HashSet::new(), newest, "20");
        assert_eq!(restored, [gone("web", &["web"], 70)]);
    }

    #[test]
    fn version_is_news_if_it_would_be_stored() {
        let cache = Cache::default();
        cache.upsert(item("web", "web", 7));
        cache.upsert(item("gone", "gone", 7));
        cache.remove(&key("gone"), "9");
        for (name, version, newest, expected) in [
            ("web", "7", 0, false),
            ("web", "6", 0, false),
            ("web", "8", 0, true),
            ("web", "6", 7, true),
            ("web", "abc", 0, true),
            ("gone", "8", 0, false),
            ("gone", "10", 0, true),
            ("other", "1", 0, true),
        ] {
            assert_eq!(
                cache.is_news(&key(name), version, newest),
                expected,
                "{name} {version} {newest}"
            );
        }
    }

    #[test]
    fn versions_that_are_not_numbers_are_not_compared() {
        let cache = Cache::default();
        let odd = Item {
            version: "abc".to_owned(),
            ..item("web", "web", 0)
        };
        cache.upsert(odd);
        assert_eq!(
            cache.retain(None, &HashSet::new(), 0, "def"),
            [gone("web", &["web"], 0)]
        );
    }

    #[test]
    fn list_of_one_namespace_does_not_affect_others() {
        let cache = Cache::default();
        cache.upsert(item("a", "a", 1));
        assert_eq!(cache.retain(Some("other"), &HashSet::new(), 1, "2"), []);
        assert_eq!(
            cache.retain(Some("default"), &HashSet::new(), 1, "2"),
            [gone("a", &["a"], 1)]
        );
    }

    #[test]
    fn member_that_changes_its_owner_queues_both_owners() {
        let cache = Cache::default();
        cache.upsert(item("pod-1", "web", 1));
        cache.upsert(item("pod-2", "web", 2));
        assert_eq!(cache.members(&key("web")), [1, 2]);
        assert_eq!(cache.upsert(item("pod-1", "shop", 3)), [key("web"), key("shop")]);
        assert_eq!(
            (cache.members(&key("web")), cache.members(&key("shop"))),
            (vec![2], vec![3])
        );
        assert_eq!(cache.remove(&key("pod-2"), "4"), Some(gone("pod-2", &["web"], 2)));
        assert_eq!(cache.members(&key("web")), [0; 0]);
    }

    #[test]
    fn object_with_two_owners_wakes_both() {
        let cache = Cache::default();
        let both = [key("shop"), key("web")];
        assert_eq!(cache.upsert(shared("pod", ["web", "shop"], 1)), both);
        for owner in &both {
            assert_eq!(cache.members(owner), [1]);
        }
        assert_eq!(
            cache.upsert(shared("pod", ["blog", "shop"], 2)),
            ["web", "blog", "shop"].map(key)
        );
        assert_eq!(cache.members(&key("web")), [0; 0]);
        assert_eq!(cache.remove(&key("pod"), "3"), Some(gone("pod", &["blog", "shop"], 2)));
        assert_eq!(cache.members(&key("shop")), [0; 0]);
        assert_eq!(cache.members(&key("blog")), [0; 0]);
    }

    #[test]
    fn member_may_have_the_name_of_its_owner() {
        let cache = Cache::default();
        for name in ["a", "web", "z"] {
            cache.upsert(item(name, "web", 1));
        }
        cache.upsert(shared("blog", ["blog", "web"], 2));
        assert_eq!(cache.members(&key("web")), [1, 2, 1, 1]);
        assert_eq!(cache.members(&key("blog")), [2]);
        assert_eq!(cache.upsert(item("web", "shop", 3)), [key("web"), key("shop")]);
        assert_eq!(cache.members(&key("web")), [1, 2, 1]);
    }

    #[test]
    fn object_without_owners_wakes_no_owner() {
        let cache = Cache::default();
        assert_eq!(cache.upsert(shared("pod", [], 1)), []);
        assert_eq!(cache.members(&key("pod")), [0; 0]);
        assert_eq!(cache.upsert(item("pod", "web", 2)), [key("web")]);
        assert_eq!(cache.upsert(shared("pod", [], 3)), [key("web")]);
    }
}
