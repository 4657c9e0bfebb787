//! Whether a kind of child exists that not every cluster has.

use std::sync::Arc;

use tokio::sync::watch as channel;

use super::Store;
use crate::cache::Item;
use crate::key::Key;
use crate::reduced::{Parts, Reduce};

/// The `CustomResourceDefinition` of a kind. The operator asks for objects of a kind that does not exist again when this appears,
/// instead of from time to time.
#[derive(Debug, Default)]
pub struct Definition {
    /// Has it while it exists.
    pub store: Arc<Store<()>>,
    exists: channel::Sender<bool>,
}

impl Definition {
    /// Waits until it exists. Does not return while the operator can't read it.
    pub async fn exists(&self) {
        let mut exists = self.exists.subscribe();
        // The sender lives as long as `self`.
        let _ = exists.wait_for(|exists| *exists).await;
    }

    /// Reads the store again, after an event of its watch.
    pub fn update(&self) {
        self.exists.send_replace(!self.store.cache.is_empty());
    }
}

/// The metadata of `CustomResourceDefinitions`, of which nothing is kept but that they exist.
#[derive(Debug)]
pub struct Defined;

impl Reduce for Defined {
    type Value = ();

    const ONLY_METADATA: bool = true;

    fn resource() -> &'static str {
        "customresourcedefinitions"
    }

    fn reduce(object: Parts<'_>) -> Option<Item<()>> {
        let key = Key::of(&object.meta);
        Some(Item {
            owners: [key.clone()].into(),
            key,
            version: object.meta.resource_version?,
            value: (),
        })
    }
}
