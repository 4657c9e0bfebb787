//! The namespaces whose objects are reconciled.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::Key;
use crate::watch::Scope;

/// The namespaces in which the objects and all that they depend on were listed, as far as that is possible. Before that, only new
/// objects are reconciled ([`Controller::is_new`](crate::controller::Controller::is_new)).
#[derive(Debug, Default)]
pub struct OpenNamespaces(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: Vec<Scope>,
    /// The objects to reconcile once their namespace is opened.
    held_back: HashSet<Key>,
}

impl OpenNamespaces {
    /// Opens a namespace, or all. Returns the objects that were held back.
    pub fn open(&self, scope: Scope) -> Vec<Key> {
        let mut state = self.lock();
        let released = state.held_back.extract_if(|key| key.is_in(scope.as_deref())).collect();
        state.open.push(scope);
        released
    }

    /// Whether the namespace of the object is open.
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        self.lock().holds(key)
    }

    /// Holds an object back until its namespace is opened. Returns false if it is open.
    #[must_use]
    pub fn hold_back(&self, key: &Key) -> bool {
        let mut state = self.lock();
        let closed = !state.holds(key);
        if closed {
            state.held_back.insert(key.clone());
        }
        closed
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn holds(&self, key: &Key) -> bool {
        self.open.iter().any(|scope| key.is_in(scope.as_deref()))
    }
}
