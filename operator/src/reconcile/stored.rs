//! Primary kinds and their stores.

use std::sync::Arc;

use crd::{AppDeploy, AppQueue, PodSet};
use kube::discovery::ApiResource;

use crate::informer::{Informer, Need, Select, Source, Wake, preferring};
use crate::key::Key;
use crate::primary::{Primary, ReadyState, Root};
use crate::stores::{Store, Stores};

/// A primary kind that has a store.
pub trait Stored: Primary {
    /// Returns the store of its objects.
    fn store(stores: &Stores) -> &Arc<Store<Root<Self>>>;

    /// Updates the state that is derived from the cached object. Returns the keys of other objects to reconcile.
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

impl Stored for AppQueue {
    fn store(stores: &Stores) -> &Arc<Store<Root<Self>>> {
        &stores.queues
    }

    /// Returns the queues of which this one is the dead letter queue.
    fn note(stores: &Stores, key: &Key) -> Vec<Key> {
        let mut sources = Vec::new();
        stores.queues.cache.for_each(|root| {
            if let Root::Readable(source) = root
                && let Some(dead_letter) = &source.spec.sqs.dead_letter
                && *dead_letter.queue_ref.name == *key.name
                && source.metadata.namespace.as_deref() == Some(&*key.namespace)
            {
                sources.push(Key::of(&source.metadata));
            }
        });
        sources
    }
}

/// Returns the informer of a primary kind.
#[must_use]
pub fn informer<K: Stored>(stores: &Stores, need: Need, wake: Wake) -> Informer {
    let source = Source::<Root<K>> {
        resource: K::NAMES.plural,
        api: ApiResource::erase::<K>(&()),
        is_namespaced: true,
        select: Select::All,
        need,
        store: K::store(stores).clone(),
        wake: preferring(wake),
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
