//! Primary kinds and their stores.

use std::sync::Arc;

use crd::{AppDeploy, PodSet};
use kube::discovery::ApiResource;

use crate::informer::{Informer, Need, Source, Wake};
use crate::key::Key;
use crate::primary::{Primary, ReadyState, Root};
use crate::stores::{Store, Stores};

/// A primary kind that has a store.
pub trait Stored: Primary {
    /// Returns the store of its objects.
    fn store(stores: &Stores) -> &Arc<Store<Root<Self>>>;

    /// Updates what is derived from the cached object. Returns the keys of other objects that this concerns.
    fn note(_stores: &Stores, _key: &Key) -> Vec<Key> {
        Vec::new()
    }
}

impl Stored for AppDeploy {
    fn store(stores: &Stores) -> &Arc<Store<Root<Self>>> {
        &stores.apps
    }

    /// Returns the apps that claim the same host, or may have it now.
    fn note(stores: &Stores, key: &Key) -> Vec<Key> {
        stores.note_host(key)
    }
}

impl Stored for PodSet {
    fn store(stores: &Stores) -> &Arc<Store<Root<Self>>> {
        &stores.podsets
    }
}

/// Returns the informer of a primary kind.
#[must_use]
pub fn informer<K: Stored>(stores: &Stores, need: Need, wake: Wake) -> Informer {
    let source = Source::<Root<K>> {
        resource: K::KIND.plural(),
        api: ApiResource::erase::<K>(&()),
        is_namespaced: true,
        labels: None,
        need,
        store: K::store(stores).clone(),
        wake,
        on_vanish: None,
    };
    source.into()
}

/// Returns the state of each object of a primary kind.
#[must_use]
pub fn ready_states<K: Stored>(stores: &Stores) -> Vec<ReadyState> {
    let mut states = Vec::new();
    K::store(stores)
        .cache
        .for_each(|root| states.push(ReadyState::of(root)));
    states
}
