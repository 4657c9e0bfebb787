//! The namespaces whose objects are reconciled.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::key::Key;
use crate::watch::Scope;

/// The namespaces in which the objects and all that they depend on were listed, as far as that is possible. Before that, only new
/// objects are reconciled ([`Controller::is_new`](crate::controller::Controller::is_new)).
#[derive(Debug, Default)]
pub struct OpenNamespaces(Mutex<Vec<Scope>>);

impl OpenNamespaces {
    /// Opens a namespace, or all.
    pub fn add(&self, scope: Scope) {
        self.lock().push(scope);
    }

    /// Whether all objects of this namespace are reconciled.
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        self.lock().iter().any(|scope| key.is_in(scope.as_deref()))
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Vec<Scope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
