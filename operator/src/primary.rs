//! The kinds that users create, as far as they are alike.

mod state;

use std::fmt::Debug;
use std::sync::Arc;

use crd::{AppDeploy, AppQueue, Cause, PodSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::object::{HasSpec, HasStatus};
use kube::core::{NamespaceResourceScope, ObjectMeta};
use model::valid::check_size;
use model::{Failure, queue, unfinished};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cache::{Equivalent, Item};
use crate::key::Key;
use crate::reduced::{Parts, Reduce, read};
pub use state::ReadyState;

/// A kind that users create and the operator reconciles.
pub trait Primary:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasSpec<Spec: DeserializeOwned + PartialEq>
    + HasStatus<Status: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync>
    + Clone
    + Debug
    + Default
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its names.
    const NAMES: crd::Names;

    /// The resource of its status, as access rules name it.
    const STATUS: &'static str;

    /// Returns the cause in a status.
    fn cause(status: &Self::Status) -> Option<&Cause>;

    /// Returns the conditions of a status.
    fn conditions(status: &Self::Status) -> &[Condition];

    /// Returns its status after a reconcile that panicked or timed out.
    fn unfinished(&self, failure: &Failure, now: Timestamp) -> Self::Status;
}

impl Primary for AppDeploy {
    const NAMES: crd::Names = crd::Kind::AppDeploy.names();
    const STATUS: &'static str = "appdeploys/status";

    fn cause(status: &Self::Status) -> Option<&Cause> {
        status.cause.as_ref()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn unfinished(&self, failure: &Failure, now: Timestamp) -> Self::Status {
        unfinished::app(self, failure, now)
    }
}

impl Primary for PodSet {
    const NAMES: crd::Names = crd::Kind::PodSet.names();
    const STATUS: &'static str = "podsets/status";

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

impl Primary for AppQueue {
    const NAMES: crd::Names = crd::Names::APP_QUEUE;
    const STATUS: &'static str = "appqueues/status";

    fn cause(status: &Self::Status) -> Option<&Cause> {
        status.cause.as_ref()
    }

    fn conditions(status: &Self::Status) -> &[Condition] {
        &status.conditions
    }

    fn unfinished(&self, failure: &Failure, now: Timestamp) -> Self::Status {
        queue::unfinished(self, failure, now)
    }
}

/// A cached object of a primary kind.
#[derive(Clone, Debug)]
pub enum Root<K> {
    /// It fits the schema.
    Readable(Arc<K>),
    /// It does not fit the schema: it is older than a rule, or was written without validation.
    Unreadable {
        /// What can be read.
        meta: Arc<ObjectMeta>,
        /// Why the rest can't be read.
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

    /// Returns the failure that the status reports.
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

impl<K: Primary> Equivalent for Root<K> {
    fn is_equivalent(&self, other: &Self) -> bool {
        let meta = |root: &Self| ObjectMeta {
            resource_version: None,
            ..root.meta().clone()
        };
        let is_same = match (self, other) {
            (Self::Readable(one), Self::Readable(other)) => {
                one.spec() == other.spec() && one.status() == other.status()
            }
            (Self::Unreadable { why: one, .. }, Self::Unreadable { why: other, .. }) => one == other,
            (Self::Readable(_), Self::Unreadable { .. }) | (Self::Unreadable { .. }, Self::Readable(_)) => false,
        };
        is_same && meta(self) == meta(other)
    }
}

/// Whether two versions of an object differ at most in their status, according to their metadata: each other spec has another
/// generation.
#[must_use]
pub fn differ_only_in_status(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.uid == other.uid
        && one.generation == other.generation
        && one.annotations == other.annotations
        && one.labels == other.labels
        && one.deletion_timestamp == other.deletion_timestamp
}

/// The prefix of the annotations that the plugin writes and the operator reads.
const OWN_PREFIX: &str = "appdeploy.dev/";

/// The most bytes of labels, annotations, finalizers and owner references that are kept of an object, each.
const MAX_META: usize = 16 * 1024;

impl<K: Primary> Reduce for Root<K> {
    type Value = Self;

    fn resource() -> &'static str {
        K::NAMES.plural
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
            if check_size(spec.bytes()).is_err() {
                return Err(Unusable::TooLarge(spec.bytes()));
            }
            let mut object = K::default();
            *object.spec_mut() = read(spec).map_err(Unusable::schema)?;
            let status: Option<K::Status> = status.map(read).transpose().map_err(Unusable::schema)?.flatten();
            // Lists that were parsed have room for more entries, a copy has none.
            object.status_mut().clone_from(&status);
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

/// Drops what no decision depends on and other clients may have made large: managed fields, annotations of other managers, and
/// all above a number of bytes.
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

/// The bytes that may still be kept.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::reduced::{Outcome, Reduced};

    /// Reduces an app with this version and these changes.
    fn app(version: &str, changes: &[(&str, Value)]) -> Root<AppDeploy> {
        let mut object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": version,
            "generation": 3, "finalizers": [], "annotations": {"example.com/seen": version}},
            "spec": {"image": "nginx"}, "status": {"observedGeneration": 3}});
        for (pointer, value) in changes {
            *object.pointer_mut(pointer).unwrap() = value.clone();
        }
        match serde_json::from_str::<Reduced<Root<AppDeploy>>>(&object.to_string())
            .unwrap()
            .outcome
        {
            Outcome::Kept(item) => item.value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn versions_that_no_decision_depends_on_are_equivalent() {
        assert!(app("7", &[]).is_equivalent(&app("8", &[])));
        let unreadable = ("/spec/image", json!(5));
        let changes = std::slice::from_ref(&unreadable);
        assert!(app("7", changes).is_equivalent(&app("8", changes)));
        for change in [
            ("/metadata/uid", json!("u2")),
            ("/metadata/generation", json!(4)),
            ("/metadata/finalizers", json!(["example.com/held"])),
            ("/metadata/annotations", json!({"appdeploy.dev/restarted-at": "now"})),
            ("/spec/image", json!("httpd")),
            ("/status/observedGeneration", json!(2)),
            unreadable,
        ] {
            assert!(
                !app("7", &[]).is_equivalent(&app("8", std::slice::from_ref(&change))),
                "{change:?}"
            );
        }
    }
}
