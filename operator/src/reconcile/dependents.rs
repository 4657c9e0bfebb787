//! What objects were seen to own, to tell what somebody has taken from one from what it never had.
//!
//! The garbage collector takes what belongs to an owner that is gone, and the watch of the owners may say so later than
//! that of what they owned. Made anew, it would be for nobody, and taken again, as fast as both of them can. So before
//! anything is made for an owner that has lost something, it is read anew.
//!
//! An operator that has just started may be given an old list of the owners, and would change what they own back to what
//! was wanted then. So an owner that is older than the operator's knowledge of it is read anew, once, before anything
//! of it is changed. One that was seen new is not.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::key::Key;
use crate::seeded::{self, Bug};

/// What the objects of a kind own.
#[derive(Debug, Default)]
pub struct Dependents(Mutex<HashMap<Key, Trace>>);

#[derive(Debug)]
struct Trace {
    uid: Box<str>,
    /// What was there, and has to be there still: hashes of UIDs, sorted.
    owned: Vec<u64>,
    /// What we delete or let go ourselves, as long as it may be there.
    given_up: HashSet<u64>,
    doubts: Doubts,
}

/// Why an owner may not be what it is believed to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Something is gone that we have not given up: the owner may be gone, too.
    pub robbed: bool,
    /// It was there before us, and was not read since we began: it may have been changed.
    pub unread: bool,
}

impl Dependents {
    /// Takes in what is there: the UIDs of what an object controls and nobody has deleted. `told` is whether it has a
    /// status. Returns what has been in doubt since the object was last read. What was remembered of a namesake with
    /// another UID is forgotten.
    pub fn see<'a>(&self, key: &Key, uid: &str, told: bool, present: impl Iterator<Item = &'a str>) -> Doubts {
        let mut present: Vec<u64> = present.map(hash).collect();
        present.sort_unstable();
        let mut all = self.lock();
        let Some(trace) = all.get_mut(key).filter(|trace| &*trace.uid == uid) else {
            let doubts = Doubts {
                robbed: false,
                unread: (told || !present.is_empty()) && !seeded::is(Bug::StaleTrusted),
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
        trace.doubts.robbed |= gone.any(|one| !trace.given_up.contains(one));
        trace.given_up.retain(is_there);
        trace.owned = present;
        trace.doubts
    }

    /// Takes in that we are about to delete something, or to let it go.
    pub fn give_up(&self, key: &Key, dependent: &str) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.given_up.insert(hash(dependent));
        }
    }

    /// Takes in that the owner was read, and is as it was believed to be.
    pub fn owner_was_read(&self, key: &Key) {
        if let Some(trace) = self.lock().get_mut(key) {
            trace.doubts = Doubts::default();
        }
    }

    /// Forgets an object that is gone.
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

    fn sees(dependents: &Dependents, present: &[&str]) -> bool {
        dependents.see(&key(), "u1", false, present.iter().copied()).robbed
    }

    #[test]
    fn what_was_there_before_us_is_read_once() {
        let sees = |told, present: &[&str]| {
            let dependents = Dependents::default();
            let first = dependents.see(&key(), "u1", told, present.iter().copied());
            dependents.owner_was_read(&key());
            let then = dependents.see(&key(), "u1", true, ["a"].into_iter());
            (first.unread, then.unread)
        };
        assert_eq!(sees(false, &["a"]), (true, false), "something was made for it");
        assert_eq!(sees(true, &[]), (true, false), "somebody has looked at it");
        assert_eq!(sees(false, &[]), (false, false), "it is new");
    }

    #[test]
    fn what_was_never_there_is_not_missed() {
        let dependents = Dependents::default();
        assert!(!sees(&dependents, &[]));
        assert!(!sees(&dependents, &["a"]));
        assert!(!sees(&dependents, &["a", "b"]));
    }

    #[test]
    fn what_somebody_took_is_missed_until_the_owner_is_known_to_live() {
        let dependents = Dependents::default();
        sees(&dependents, &["a", "b"]);
        assert!(sees(&dependents, &["b"]));
        assert!(sees(&dependents, &["b", "c"]), "nobody has asked");
        dependents.owner_was_read(&key());
        assert!(!sees(&dependents, &["b", "c"]));
        assert!(sees(&dependents, &[]));
    }

    #[test]
    fn what_was_given_up_is_not_missed() {
        let dependents = Dependents::default();
        sees(&dependents, &["a", "b"]);
        dependents.give_up(&key(), "a");
        assert!(!sees(&dependents, &["a", "b"]), "it is on its way out");
        assert!(!sees(&dependents, &["b"]));
        assert!(sees(&dependents, &[]));
    }

    #[test]
    fn a_delete_that_fails_again_and_again_is_remembered_once() {
        let dependents = Dependents::default();
        sees(&dependents, &["a"]);
        for _ in 0..1000 {
            dependents.give_up(&key(), "a");
            assert!(!sees(&dependents, &["a"]));
        }
        assert_eq!(dependents.lock()[&key()].given_up.len(), 1);
    }

    #[test]
    fn another_object_of_the_name_has_lost_nothing() {
        let dependents = Dependents::default();
        sees(&dependents, &["a"]);
        assert!(!dependents.see(&key(), "u2", false, [].into_iter()).robbed);
        dependents.see(&key(), "u2", false, ["a"].into_iter());
        dependents.forget(&key());
        assert!(!dependents.see(&key(), "u2", false, [].into_iter()).robbed);
    }
}
