//! The caches of the children of apps, one for each kind.

use std::sync::Arc;

use kube::discovery::ApiResource;
use model::children::Api;
use model::{CHILDREN, Child, ChildId, ChildKind, Failure, Observed, children};

use super::definition::Definition;
use super::{MAX_OBJECT, Store};
use crate::cache::{Equivalent, Item};
use crate::key::Key;
use crate::protobuf::{self, Descriptor};
use crate::reduced::{Parts, Reduce, read_either};

/// The caches of all kinds of children.
#[derive(Debug)]
pub struct Children {
    kinds: &'static [&'static ChildKind],
    /// One for each kind, in the same order.
    caches: Vec<Arc<Store<Arc<Child>>>>,
    /// Those of the optional kinds.
    definitions: Vec<(&'static ChildKind, Arc<Definition>)>,
    /// Stands for a kind that is not in the table. It is never listed, so nothing of it is written.
    none: Arc<Store<Arc<Child>>>,
}

impl Default for Children {
    fn default() -> Self {
        Self::of_kinds(CHILDREN)
    }
}

impl Children {
    /// Returns empty caches for these kinds.
    #[must_use]
    pub fn of_kinds(kinds: &'static [&'static ChildKind]) -> Self {
        let optional = kinds.iter().filter(|kind| kind.api == Api::Optional);
        Self {
            kinds,
            definitions: optional.map(|kind| (*kind, Arc::default())).collect(),
            caches: kinds.iter().map(|_| Arc::default()).collect(),
            none: Arc::default(),
        }
    }

    /// Returns the kinds of children that apps have.
    #[must_use]
    pub const fn kinds(&self) -> &'static [&'static ChildKind] {
        self.kinds
    }

    /// Returns the cache of a kind.
    #[must_use]
    pub fn of(&self, kind: &ChildKind) -> &Arc<Store<Arc<Child>>> {
        let mut all = self.all();
        all.find(|(known, _)| *known == kind)
            .map_or(&self.none, |(_, cache)| cache)
    }

    /// Returns the cached state of a child.
    #[must_use]
    pub fn get(&self, namespace: &str, id: &ChildId) -> Option<Arc<Child>> {
        self.of(id.kind).cache.get(&Key::new(namespace, &id.name))
    }

    /// Adds the cached children of an app.
    pub(super) fn observe(&self, app: &Key, is_new: bool, observed: &mut Observed) {
        observed.kinds = self.kinds;
        for (kind, store) in self.all() {
            // Its objects were deleted with the definition of the kind.
            if kind.api == Api::Optional && store.health.is_not_served() {
                continue;
            }
            let Store { cache, health, .. } = &**store;
            let members = if kind.own_names {
                cache.members_by_key(app)
            } else {
                cache.get(app).map(|child| (app.clone(), child)).into_iter().collect()
            };
            let named = members
                .into_iter()
                .map(|(key, child)| (ChildId::new(kind, &key.name), child));
            observed.children.extend(named);
            if let Some(why) = health.unseen(&app.namespace)
                && !(is_new && health.is_pending(&app.namespace))
            {
                observed.unknown.push((kind, why));
            }
        }
    }

    /// Returns the kinds whose children were observed, but may have changed or been deleted since. Children of a kind that was never
    /// listed are answers to writes.
    #[must_use]
    pub fn outdated(&self, app: &Key, observed: &Observed) -> Vec<Failure> {
        let present = self.all().filter(|(kind, _)| observed.of(kind).next().is_some());
        let failure = |(kind, store): (&ChildKind, &Arc<Store<Arc<Child>>>)| {
            let resource = kind.plural;
            let unlisted = || {
                let is_pending = store.health.is_pending(&app.namespace);
                let why = store.health.unseen(&app.namespace).filter(|_| !is_pending)?;
                Some(Failure::WatchFailed { resource, why })
            };
            store.outdated(resource, app).or_else(unlisted)
        };
        present.filter_map(failure).collect()
    }

    /// Returns the optional kinds that the server may serve: all that it does not report as unknown.
    #[must_use]
    pub fn served(&self) -> Vec<&'static ChildKind> {
        let optional = self.all().filter(|(kind, _)| kind.api == Api::Optional);
        let served = optional.filter(|(_, store)| !store.health.is_not_served());
        served.map(|(kind, _)| kind).collect()
    }

    /// Returns the definition of an optional kind.
    #[must_use]
    pub fn definition(&self, kind: &ChildKind) -> Option<&Arc<Definition>> {
        let mut all = self.definitions.iter();
        all.find(|(known, _)| *known == kind).map(|(_, definition)| definition)
    }

    /// Returns each kind with its store.
    pub fn all(&self) -> impl Iterator<Item = (&'static ChildKind, &Arc<Store<Arc<Child>>>)> {
        self.kinds.iter().copied().zip(&self.caches)
    }
}

/// Returns how the API names a kind of child.
#[must_use]
pub fn api_resource(kind: &ChildKind) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}

impl Equivalent for Child {
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
    }
}

tokio::task_local! {
    /// The kind whose lists and watches the current task reads. The API server does not repeat the kind in the items of a
    /// list, and an object is reduced while it is parsed.
    static READING: &'static ChildKind;
}

/// Runs a watch or a request that reads [`ChildObject`]s of a kind.
pub async fn reading<T>(kind: &'static ChildKind, reads: impl Future<Output = T>) -> T {
    READING.scope(kind, reads).await
}

/// A child as lists, watches and answers show it. It can be parsed only within [`reading`].
#[derive(Debug)]
pub struct ChildObject;

impl Reduce for ChildObject {
    type Value = Arc<Child>;

    fn resource() -> &'static str {
        READING.try_with(|kind| kind.plural).unwrap_or("children")
    }

    fn descriptor() -> Option<&'static Descriptor> {
        READING
            .try_with(|kind| protobuf::descriptor(kind.group, kind.kind))
            .ok()?
    }

    /// A child that is too large counts as having none of the fields that are wanted. Its changes queue the app of its name, which
    /// may need that name, and for kinds with their own names the app that controls it.
    fn reduce(object: Parts<'_>) -> Option<Item<Arc<Child>>> {
        let kind = READING.try_with(|kind| *kind).ok()?;
        let names = kind.digest.iter().copied().chain(["status"]);
        let fields: Vec<_> = names.filter_map(|name| Some((name, object.field(name)?))).collect();
        let bytes: usize = fields.iter().map(|(_, part)| part.bytes()).sum();
        let mut data = serde_json::Map::new();
        if bytes <= MAX_OBJECT {
            for (name, part) in fields {
                if let Ok(value) = read_either(part) {
                    data.insert(name.to_owned(), value);
                }
            }
        }
        let meta = object.meta;
        let key = Key::of(&meta);
        let controller = children::controller(&meta).filter(|_| kind.own_names);
        let app = controller.and_then(|(owner, _)| Some(Key::new(&key.namespace, owner.strip_prefix("AppDeploy ")?)));
        let value = Arc::new(Child::read(kind, &meta, &data.into()));
        Some(Item {
            owners: app.into_iter().chain([key.clone()]).collect(),
            key,
            version: meta.resource_version.unwrap_or_default(),
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::protobuf::tests::examples;
    use crate::reduced::{Outcome, Reduced};

    /// Otherwise an operator that falls back to JSON would see drift.
    #[tokio::test]
    async fn child_is_the_same_as_json_and_as_protobuf() {
        let mut compared = 0;
        for example in examples() {
            let Some(kind) = CHILDREN.iter().find(|kind| kind.kind == example.kind) else {
                continue;
            };
            let json = to_raw_value(&example.json).unwrap();
            let message = Parts::of_message(example.message()).unwrap();
            let kept = |object: Reduced<ChildObject>| match object.outcome {
                Outcome::Kept(item) => item.value,
                other => panic!("{other:?}"),
            };
            reading(kind, async {
                let (json, protobuf) = (Reduced::parse(&json).unwrap(), Reduced::of(message));
                assert_eq!(kept(json), kept(protobuf), "{}", kind.kind);
            })
            .await;
            compared += 1;
        }
        assert_eq!(compared, 8, "four kinds, with all fields and with none");
    }

    #[test]
    fn only_specs_of_children_in_protobuf_have_a_digest() {
        let mut kinds = CHILDREN
            .iter()
            .filter(|kind| protobuf::descriptor(kind.group, kind.kind).is_some());
        assert!(kinds.all(|kind| kind.digest.iter().all(|field| *field == "spec")));
    }
}
