//! The kinds that people create and the operator looks after, as far as they are alike.

use std::fmt::Debug;
use std::sync::Arc;

use crd::{AppDeploy, Cause, PodSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::object::{HasSpec, HasStatus};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::discovery::ApiResource;
use model::valid::check_size;
use model::{Failure, unfinished};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::Item;
use crate::informer::{Informer, Need, Source, Wake};
use crate::key::Key;
use crate::metrics::State;
use crate::reduced::{Parts, Reduce, read};
use crate::stores::{Store, Stores};

/// A kind that people create and the operator looks after.
pub trait Primary:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasSpec<Spec: DeserializeOwned>
    + HasStatus<Status: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync>
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
    fn known(stores: &Stores) -> &Arc<Store<Root<Self>>>;

    /// Returns what a status says is wrong.
    fn cause(status: &Self::Status) -> Option<&Cause>;

    /// Returns the conditions of a status.
    fn conditions(status: &Self::Status) -> &[Condition];

    /// Returns its status after a reconcile that panicked or timed out.
    fn unfinished(&self, failure: &Failure, now: Timestamp) -> Self::Status;

    /// Takes in what is known of an object now. Returns the others whom it concerns.
    fn note(_stores: &Stores, _key: &Key) -> Vec<Key> {
        Vec::new()
    }
}

impl Primary for AppDeploy {
    const KIND: crd::Kind = crd::Kind::AppDeploy;
    const STATUS: &'static str = "appdeploys/status";

    fn known(stores: &Stores) -> &Arc<Store<Root<Self>>> {
        &stores.apps
    }

    fn cause(status: &Self::Status) -> Option<&Cause> {
        status.cause.as_ref()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn unfinished(&self, failure: &Failure, now: Timestamp) -> Self::Status {
        unfinished::app(self, failure, now)
    }

    /// Whoever claims the same host, or may have it now.
    fn note(stores: &Stores, key: &Key) -> Vec<Key> {
        stores.note_host(key)
    }
}

impl Primary for PodSet {
    const KIND: crd::Kind = crd::Kind::PodSet;
    const STATUS: &'static str = "podsets/status";

    fn known(stores: &Stores) -> &Arc<Store<Root<Self>>> {
        &stores.podsets
    }

    fn cause(status: &Self::Status) -> Option<&Cause> {
        status.cause.as_ref()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn unfinished(&self, failure: &Failure, now: Timestamp) -> Self::Status {
        unfinished::podset(self, failure, now)
    }
}

/// Returns what watches the objects of a primary kind.
#[must_use]
pub fn informer<K: Primary>(stores: &Stores, need: Need, wake: Wake) -> Informer {
    let source = Source::<Root<K>> {
        resource: K::KIND.plural(),
        api: ApiResource::erase::<K>(&()),
        is_namespaced: true,
        labels: None,
        need,
        store: K::known(stores).clone(),
        wake,
        on_vanish: None,
    };
    source.into()
}

/// Returns the state of each object of a primary kind.
#[must_use]
pub fn states<K: Primary>(stores: &Stores) -> Vec<State> {
    let mut states = Vec::new();
    K::known(stores).cache.for_each(|root| states.push(State::of(root)));
    states
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
        why: Unusable,
    },
}

/// Why the spec of a stored object is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It does not fit the schema.
    Schema(Arc<str>),
    /// It has more bytes than are kept of a spec.
    TooLarge(usize),
}

impl Unusable {
    fn schema(error: String) -> Self {
        Self::Schema(error.into())
    }

    /// Returns what the status says about it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Schema(error) => Failure::Unreadable(error.to_string()),
            Self::TooLarge(bytes) => match check_size(*bytes) {
                Err(invalid) => invalid.into(),
                Ok(()) => Failure::Unreadable("its spec was too large to be read".to_owned()),
            },
        }
    }
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

/// What the names of annotations begin with that the plugin writes and the operator reads.
const OWN_PREFIX: &str = "appdeploy.dev/";

/// The most bytes of labels, annotations, finalizers and owner references that are kept of an object, each.
const MAX_META: usize = 16 * 1024;

impl<K: Primary> Reduce for Root<K> {
    type Value = Self;

    fn resource() -> &'static str {
        K::KIND.plural()
    }

    fn reduce(object: Parts<'_>) -> Option<Item<Self>> {
        let Parts {
            mut meta, spec, status, ..
        } = object;
        trim(&mut meta);
        let key = Key::of(&meta);
        let version = meta.resource_version.clone().unwrap_or_default();
        let whole = || -> Result<K, Unusable> {
            let spec = spec.ok_or_else(|| Unusable::schema("missing field `spec`".to_owned()))?;
            if check_size(spec.get().len()).is_err() {
                return Err(Unusable::TooLarge(spec.get().len()));
            }
            let mut object = K::default();
            *object.spec_mut() = read(spec).map_err(Unusable::schema)?;
            *object.status_mut() = status.map(read).transpose().map_err(Unusable::schema)?.flatten();
            Ok(object)
        };
        let value = match whole() {
            Ok(mut object) => {
                *object.meta_mut() = meta;
                Self::Readable(Arc::new(object))
            }
            Err(why) => Self::Unreadable {
                meta: Arc::new(meta),
                why,
            },
        };
        Some(Item {
            owners: [key.clone()].into(),
            key,
            version,
            value,
        })
    }
}

/// Drops what nothing is decided by, which others may have made large: managed fields, annotations of other managers, and what is
/// more than a bounded number of bytes.
fn trim(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        let mut room = Room::default();
        annotations.retain(|key, value| key.starts_with(OWN_PREFIX) && room.has(key.len() + value.len()));
    }
    if let Some(labels) = &mut meta.labels {
        let mut room = Room::default();
        labels.retain(|key, value| room.has(key.len() + value.len()));
    }
    if let Some(finalizers) = &mut meta.finalizers {
        let mut room = Room::default();
        finalizers.retain(|finalizer| room.has(finalizer.len()));
    }
    if let Some(owners) = &mut meta.owner_references {
        let mut room = Room::default();
        owners
            .retain(|owner| room.has(owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len()));
    }
}

/// The bytes that are left.
struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MAX_META)
    }
}

impl Room {
    fn has(&mut self, bytes: usize) -> bool {
        self.0 = self.0.saturating_sub(bytes);
        self.0 > 0
    }
}
