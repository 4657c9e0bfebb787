//! Records which objects each owner was seen to own, to tell deleted objects from objects that never existed.
//!
//! The garbage collector deletes the objects of a deleted owner, and the watch of the owners may report the owner's deletion
//! later than theirs. The operator would create them again, and the garbage collector delete them again. So an owner that has
//! lost an object is re-read before anything is created for it.
//!
//! An operator that has just started may be served an old list of the owners, and would change their objects back to an old
//! spec. So an owner that existed before the operator started is re-read once before its objects are changed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::key::Key;
use crate::seeded::{self, Bug};

/// The owned objects of all owners of one kind.
#[derive(Debug, Default)]
pub struct OwnedObjects(Mutex<HashMap<Key, Trace>>);

#[derive(Debug)]
struct Trace {
    uid: Box<str>,
    /// What existed, and must still exist: hashes of UIDs, sorted.
    owned: Vec<u64>,
    /// What the operator deletes or releases itself, as long as it may exist.
    given_up: HashSet<u64>,
    doubts: Doubts,
}

/// Why the cached owner may be outdated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubts {
    /// An object was deleted by another client: the owner may have been deleted, too.
    pub lost: bool,
    /// It existed before the operator started, and was not read since: it may have changed.
    pub unverified: bool,
}

impl OwnedObjects {
    /// Records the UIDs of the objects that an owner controls and that are not being deleted. `told` is whether the owner has
    /// a status. Returns the doubts since the owner was last read. The record of a namesake with another UID is dropped.
    pub fn record_owned<'a>(&self, key: &Key, uid: &str, told: bool, present: impl Iterator<Item = &'a str>) -> Doubts {
        let mut present: Vec<u64> = present.map(hash).collect();
        present.sort_unstable();
        let mut all = self.lock();
        let Some(trace) = all.get_mut(key).filter(|trace| &*trace.uid == uid) else {
            let doubts = Doubts {
                lost: false,
                unverified: (told || !present.is_empty()) && !seeded::is(Bug::StaleTrusted),
            };
            let trace = Trace {
                uid: uid.into(),
                owned: present,
                given_up: HashSet::new(),
                doubts,
            };
            all.insert(key.clone(), trace);
            return doubts;
        };
        let is_there = |one: &u64| present.binary_search(one).is_ok();
        let mut gone = trace.owned.iter().filter(|one| !is_there(one));
        trace.doubts.lost |= gone.any(|one| !trace.given_up.contains(one));
        trace.given_up.retain(is_there);
        trace.owned = present;
        trace.doubts
    }

    /// Records that the operator is about to delete or release an object.
    pub fn expect_deletion(&self, key: &Key, dependent: &str) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.given_up.insert(hash(dependent));
        }
    }

    /// Records that the owner was read, and is as it was cached.
    pub fn owner_verified(&self, key: &Key) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.doubts = Doubts::default();
        }
    }

    /// Drops the record of a deleted owner.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Trace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A UID is random: eight bytes tell the few that one object owns apart.
fn hash(uid: &str) -> u64 {
    xxh3_64(uid.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("default", "web")
    }

    fn sees(owned_objects: &OwnedObjects, present: &[&str]) -> bool {
        owned_objects
            .record_owned(&key(), "u1", false, present.iter().copied())
            .lost
    }

    #[test]
    fn what_was_there_before_us_is_read_once() {
        let sees = |told, present: &[&str]| {
            let owned_objects = OwnedObjects::default();
            let first = owned_objects.record_owned(&key(), "u1", told, present.iter().copied());
            owned_objects.owner_verified(&key());
            let then = owned_objects.record_owned(&key(), "u1", true, ["a"].into_iter());
            (first.unverified, then.unverified)
        };
        assert_eq!(sees(false, &["a"]), (true, false), "something was made for it");
        assert_eq!(sees(true, &[]), (true, false), "somebody has looked at it");
        assert_eq!(sees(false, &[]), (false, false), "it is new");
    }

    #[test]
    fn what_was_never_there_is_not_missed() {
        let owned_objects = OwnedObjects::default();
        assert!(!sees(&owned_objects, &[]));
        assert!(!sees(&owned_objects, &["a"]));
        assert!(!sees(&owned_objects, &["a", "b"]));
    }

    #[test]
    fn what_somebody_took_is_missed_until_the_owner_is_known_to_live() {
        let owned_objects = OwnedObjects::default();
        sees(&owned_objects, &["a", "b"]);
        assert!(sees(&owned_objects, &["b"]));
        assert!(sees(&owned_objects, &["b", "c"]), "nobody has asked");
        owned_objects.owner_verified(&key());
        assert!(!sees(&owned_objects, &["b", "c"]));
        assert!(sees(&owned_objects, &[]));
    }

    #[test]
    fn what_was_given_up_is_not_missed() {
        let owned_objects = OwnedObjects::default();
        sees(&owned_objects, &["a", "b"]);
        owned_objects.expect_deletion(&key(), "a");
        assert!(!sees(&owned_objects, &["a", "b"]), "it is on its way out");
        assert!(!sees(&owned_objects, &["b"]));
        assert!(sees(&owned_objects, &[]));
    }

    #[test]
    fn a_delete_that_fails_again_and_again_is_remembered_once() {
        let owned_objects = OwnedObjects::default();
        sees(&owned_objects, &["a"]);
        for _ in 0..1000 {
            owned_objects.expect_deletion(&key(), "a");
            assert!(!sees(&owned_objects, &["a"]));
        }
        assert_eq!(owned_objects.lock()[&key()].given_up.len(), 1);
    }

    #[test]
    fn another_object_of_the_name_has_lost_nothing() {
        let owned_objects = OwnedObjects::default();
        sees(&owned_objects, &["a"]);
        assert!(!owned_objects.record_owned(&key(), "u2", false, [].into_iter()).lost);
        owned_objects.record_owned(&key(), "u2", false, ["a"].into_iter());
        owned_objects.forget(&key());
        assert!(!owned_objects.record_owned(&key(), "u2", false, [].into_iter()).lost);
    }
}
