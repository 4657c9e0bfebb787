//! Which objects concern which owner, for kinds of which an owner has many.

use std::collections::{BTreeSet, HashMap};

use crate::key::Key;

/// The names of the objects that concern each owner. An object that concerns itself is not in it: it is found by its name.
#[derive(Debug, Default)]
pub struct Members(HashMap<Key, BTreeSet<Key>>);

impl Members {
    /// Adds an object that concerns an owner other than itself.
    pub fn join(&mut self, owner: &Key, key: &Key) {
        self.0.entry(owner.clone()).or_default().insert(key.clone());
    }

    /// Removes an object from an owner.
    pub fn leave(&mut self, owner: &Key, key: &Key) {
        if let Some(members) = self.0.get_mut(owner) {
            members.remove(key);
            if members.is_empty() {
                self.0.remove(owner);
            }
        }
    }

    /// Returns the names of the objects that concern an owner, sorted; with the owner's own, if an object of that
    /// name concerns `itself`.
    pub fn of<'a>(&'a self, owner: &'a Key, itself: bool) -> impl Iterator<Item = &'a Key> {
        let others = self.0.get(owner);
        let before = others.into_iter().flat_map(move |keys| keys.range(..owner));
        let after = others.into_iter().flat_map(move |keys| keys.range(owner..));
        before.chain(itself.then_some(owner)).chain(after)
    }
}
