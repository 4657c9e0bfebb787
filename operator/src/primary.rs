//! The kinds that people create and the operator looks after, as far as they are alike.

use std::fmt::Debug;
use std::sync::Arc;

use crd::{AppDeploy, Cause, PodSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::object::HasStatus;
use kube::core::{DeserializeGuard, NamespaceResourceScope, ObjectMeta};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Item;
use crate::key::Key;
use crate::world::{Kind, World};

/// A kind that people create and the operator looks after.
pub trait Primary:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync>
    + Clone
    + Debug
    + Default
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its name.
    const KIND: crd::Kind;

    /// The resource of its status, as access rules call it.
    const STATUS: &'static str;

    /// Returns what is known of its objects.
    fn known(world: &World) -> &Kind<Root<Self>>;

    /// Returns what a status says is wrong.
    fn cause(status: &Self::Status) -> Option<&Cause>;

    /// Returns the conditions of a status.
    fn conditions(status: &Self::Status) -> &[Condition];

    /// Takes in what is known of an object now. Returns the others whom it concerns.
    fn note(_world: &World, _key: &Key) -> Vec<Key> {
        Vec::new()
    }
}

impl Primary for AppDeploy {
    const KIND: crd::Kind = crd::Kind::AppDeploy;
    const STATUS: &'static str = "appdeploys/status";

    fn known(world: &World) -> &Kind<Root<Self>> {
        &world.apps
    }

    fn cause(status: &Self::Status) -> Option<&Cause> {
        status.cause.as_ref()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    /// Whoever claims the same host, or may have it now.
    fn note(world: &World, key: &Key) -> Vec<Key> {
        world.hosts.note(key, world.apps.cache.get(key).as_ref())
    }
}

impl Primary for PodSet {
    const KIND: crd::Kind = crd::Kind::PodSet;
    const STATUS: &'static str = "podsets/status";

    fn known(world: &World) -> &Kind<Root<Self>> {
        &world.podsets
    }

    fn cause(status: &Self::Status) -> Option<&Cause> {
        status.cause.as_ref()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }
}

/// An object of a primary kind as it is stored.
#[derive(Clone, Debug)]
pub enum Root<K> {
    /// As it should be.
    Readable(Arc<K>),
    /// It does not fit the schema: it is older than a rule, or was written past it.
    Unreadable {
        /// What can be read.
        meta: Arc<ObjectMeta>,
        /// Why the rest can't.
        error: Arc<str>,
    },
}

impl<K: Primary> Root<K> {
    /// Returns the object's metadata.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Readable(object) => object.meta(),
            Self::Unreadable { meta, .. } => meta,
        }
    }
}

/// Whether two versions of an object differ in their status alone, as far as their metadata tell: there is a new
/// generation for every other spec.
#[must_use]
pub fn differ_in_status_alone(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.uid == other.uid
        && one.generation == other.generation
        && one.annotations == other.annotations
        && one.labels == other.labels
        && one.deletion_timestamp == other.deletion_timestamp
}

/// Reduces an object of a primary kind to what is kept of it.
#[must_use]
pub fn root<K: Primary>(object: DeserializeGuard<K>) -> Item<Root<K>> {
    let (meta, value) = match object.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            (object.meta().clone(), Root::Readable(Arc::new(object)))
        }
        Err(invalid) => {
            let mut meta = invalid.metadata;
            meta.managed_fields = None;
            (
                meta.clone(),
                Root::Unreadable {
                    meta: Arc::new(meta),
                    error: invalid.error.into(),
                },
            )
        }
    };
    let key = Key::of(&meta);
    Item {
        owners: [key.clone()].into(),
        key,
        version: meta.resource_version.unwrap_or_default(),
        value,
    }
}
