//! Records which objects an owner was seen to own, to distinguish deleted objects from objects that never existed.
//!
//! The garbage collector deletes the objects of a deleted owner, and the watch of the owners may report the owner's deletion
//! later than theirs. The operator would create them again, and the garbage collector delete them again. So an owner that has
//! lost an object is re-read before anything is created for it. Whether an owner has lost an object before the operator started is not
//! known: one that was reconciled before is re-read before the first object is created for it.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use super::ObjectStates;
use crate::key::Key;

/// The objects that an owner was seen to own.
#[derive(Debug, Default)]
pub struct OwnedObjects {
    /// What existed, and must still exist; `None` before the first record.
    owned: Option<Present>,
    /// What the operator deletes or releases itself, as long as it may exist.
    given_up: HashSet<u64>,
    /// Whether an object may have been deleted by another client since the owner was last read: the owner may have been deleted, too.
    lost: bool,
}

/// Hashes of the UIDs of objects that exist, sorted.
#[derive(Debug)]
pub struct Present(Box<[u64]>);

impl Present {
    /// Reads the UIDs of the objects that an owner controls and that are not being deleted.
    pub fn new(uids: impl Iterator<Item: AsRef<str>>) -> Self {
        let mut hashes: Vec<u64> = uids.map(|uid| hash(uid.as_ref())).collect();
        hashes.sort_unstable();
        Self(hashes.into())
    }

    fn contains(&self, one: u64) -> bool {
        self.0.binary_search(&one).is_ok()
    }
}

impl OwnedObjects {
    /// Records which objects exist. Returns whether another client may have deleted one since the owner was last read. `has_status` is
    /// whether the owner has a status.
    pub fn record(&mut self, has_status: bool, present: Present) -> bool {
        if let Some(owned) = &self.owned {
            let mut deleted = owned.0.iter().filter(|one| !present.contains(**one));
            self.lost |= deleted.any(|one| !self.given_up.contains(one));
            self.given_up.retain(|one| present.contains(*one));
        } else {
            self.lost = has_status || !present.0.is_empty();
        }
        self.owned = Some(present);
        self.lost
    }

    /// Records that the operator is about to delete or release an object.
    pub fn expect_deletion(&mut self, uid: &str) {
        self.given_up.insert(hash(uid));
    }

    /// Records that the owner was read, and is as it was cached.
    pub fn owner_verified(&mut self) {
        self.lost = false;
    }
}

impl<S> ObjectStates<S> {
    /// Records which objects an owner has. See [`OwnedObjects::record`].
    pub fn record_owned(&self, owner: &Key, has_status: bool, present: Present) -> bool {
        self.with_new(owner, |state| {
            state.owned_objects.get_or_insert_default().record(has_status, present)
        })
    }

    /// Records that the operator is about to delete or release an object.
    pub fn expect_deletion(&self, owner: &Key, uid: &str) {
        self.with(owner, |state| {
            state.owned_objects.get_or_insert_default().expect_deletion(uid);
        });
    }

    /// Records that an owner was read, and is as it was cached.
    pub fn owner_verified(&self, owner: &Key) {
        self.with(owner, |state| {
            state.owned_objects.get_or_insert_default().owner_verified();
        });
    }
}

/// A UID is random: eight bytes distinguish the few that one object owns.
fn hash(uid: &str) -> u64 {
    xxh3_64(uid.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owned: &mut OwnedObjects, has_status: bool, present: &[&str]) -> bool {
        owned.record(has_status, Present::new(present.iter().copied()))
    }

    fn has_lost(owned: &mut OwnedObjects, present: &[&str]) -> bool {
        record(owned, false, present)
    }

    /// Returns an owner that was new, and has these objects.
    fn owning(present: &[&str]) -> OwnedObjects {
        let mut owned = OwnedObjects::default();
        assert!(!has_lost(&mut owned, &[]));
        assert!(!has_lost(&mut owned, present));
        owned
    }

    #[test]
    fn owner_that_existed_before_the_operator_may_have_lost_objects_until_it_was_read() {
        let may_have_lost = |has_status, present: &[&str]| {
            let mut owned = OwnedObjects::default();
            let first = record(&mut owned, has_status, present);
            assert_eq!(record(&mut owned, has_status, present), first, "it was not read");
            owned.owner_verified();
            assert!(!record(&mut owned, true, present));
            first
        };
        assert!(may_have_lost(false, &["a"]), "it has an object");
        assert!(may_have_lost(true, &[]), "it has a status");
        assert!(!may_have_lost(false, &[]), "it is new");
    }

    #[test]
    fn objects_that_never_existed_are_not_lost() {
        let mut owned = OwnedObjects::default();
        assert!(!has_lost(&mut owned, &[]));
        assert!(!has_lost(&mut owned, &["a"]));
        assert!(!has_lost(&mut owned, &["a", "b"]));
    }

    #[test]
    fn deleted_objects_are_lost_until_the_owner_was_read() {
        let mut owned = owning(&["a", "b"]);
        assert!(has_lost(&mut owned, &["b"]));
        assert!(has_lost(&mut owned, &["b", "c"]), "the owner was not read");
        owned.owner_verified();
        assert!(!has_lost(&mut owned, &["b", "c"]));
        assert!(has_lost(&mut owned, &[]));
    }

    #[test]
    fn objects_that_the_operator_deletes_are_not_lost() {
        let mut owned = owning(&["a", "b"]);
        owned.expect_deletion("a");
        assert!(!has_lost(&mut owned, &["a", "b"]), "it is being deleted");
        assert!(!has_lost(&mut owned, &["b"]));
        assert!(has_lost(&mut owned, &[]));
    }

    #[test]
    fn delete_that_fails_again_and_again_is_recorded_once() {
        let mut owned = owning(&["a"]);
        for _ in 0..1000 {
            owned.expect_deletion("a");
            assert!(!has_lost(&mut owned, &["a"]));
        }
        assert_eq!(owned.given_up.len(), 1);
    }
}
