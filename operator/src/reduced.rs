//! Objects that are reduced to what is kept of them while they are parsed.
//!
//! A list or a watch would otherwise hold whole objects as trees, which take up to fifty times the bytes that they were sent
//! in, and anyone who may create an object chooses those bytes. Here all but the metadata stays encoded until it is reduced, large
//! objects one at a time, and parts above a limit are not parsed at all.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use kube::core::{DynamicResourceScope, Resource};
use kube::discovery::ApiResource;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::cache::{Cache, Equivalent, Item};
use crate::guard::guarded;
use crate::key::Key;
use crate::protobuf::{self, Descriptor, Message};

/// Objects larger than this are reduced one at a time.
const LARGE: usize = 64 * 1024;

static PARSING: Mutex<()> = Mutex::new(());

/// A way to reduce the objects of a kind.
pub trait Reduce: Send + Sync + 'static {
    /// The reduced form of an object.
    type Value: Clone + Debug + Equivalent + Send + Sync + 'static;

    /// Whether the API server sends only the metadata.
    const ONLY_METADATA: bool = false;

    /// Returns the plural name of the kind.
    fn resource() -> &'static str;

    /// Returns the type of its objects in protobuf, if they are read as that.
    #[must_use]
    fn descriptor() -> Option<&'static Descriptor> {
        None
    }

    /// Returns the reduced object; `None` if it is not to be cached.
    fn reduce(object: Parts<'_>) -> Option<Item<Self::Value>>;
}

/// The parts of an object.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    /// The metadata, without the fields that managers own.
    pub meta: ObjectMeta,
    /// The spec.
    pub spec: Option<Part<'a>>,
    /// The status.
    pub status: Option<Part<'a>>,
    /// The other fields of the top level. None are read from protobuf.
    others: Vec<(Cow<'a, str>, Part<'a>)>,
}

/// A part of an object, as it was sent.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// As JSON.
    Json(&'a RawValue),
    /// As protobuf.
    Protobuf(Message<'a>),
}

impl Part<'_> {
    /// Returns the number of its bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Json(text) => text.get().len(),
            Self::Protobuf(message) => message.bytes(),
        }
    }
}

impl<'a, 'de: 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(Self::Json)
    }
}

impl<'a> Parts<'a> {
    /// Parses the metadata of an object.
    ///
    /// # Errors
    /// When it is not an object of the API.
    pub fn parse(text: &'a RawValue) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text.get())
    }

    /// Parses the metadata of the object of an answer in protobuf. A Status, the answer to a deletion, has no parts.
    pub(crate) fn of_answer(
        answer: protobuf::Answer<'a>,
        descriptor: &'static Descriptor,
    ) -> Result<Self, protobuf::Error> {
        if answer.kind == "Status" {
            return Ok(Self::default());
        }
        Self::of_message(answer.object(descriptor))
    }

    /// Parses the metadata of an object in protobuf.
    pub(crate) fn of_message(object: Message<'a>) -> Result<Self, protobuf::Error> {
        let mut parts = Self::default();
        object.messages(|name, message| {
            match name {
                "metadata" => parts.meta = message.read::<RawMeta>()?.into_meta(),
                "spec" => parts.spec = Some(Part::Protobuf(message)),
                "status" => parts.status = Some(Part::Protobuf(message)),
                _ => {}
            }
            Ok(())
        })?;
        Ok(parts)
    }

    /// Returns a field of the top level.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Part<'a>> {
        match name {
            "spec" => self.spec,
            "status" => self.status,
            _ => self
                .others
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| *value),
        }
    }

    /// Checks that what is protobuf can be read, before it is reduced: a spec that can't be read counts as one without fields.
    pub(crate) fn check(&self) -> Result<(), protobuf::Error> {
        for part in self.spec.iter().chain(&self.status) {
            if let Part::Protobuf(message) = part {
                message.check()?;
            }
        }
        Ok(())
    }

    /// Returns the bytes of all fields but the metadata.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let others = self.others.iter().map(|(_, value)| value);
        let all = others.chain(&self.spec).chain(&self.status);
        all.map(|part| part.bytes()).sum()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Parts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartsVisitor(PhantomData))
    }
}

struct PartsVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for PartsVisitor<'a> {
    type Value = Parts<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of the API")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Parts<'a>, A::Error> {
        let mut parts = Parts::default();
        while let Some(Name(name)) = fields.next_key()? {
            match &*name {
                "metadata" => parts.meta = fields.next_value::<RawMeta>()?.into_meta(),
                "spec" => parts.spec = fields.next_value()?,
                "status" => parts.status = fields.next_value()?,
                _ => parts.others.push((name, fields.next_value()?)),
            }
        }
        Ok(parts)
    }
}

/// The name of a field, which is copied only if it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Name<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// An object of a list, a watch or an answer, reduced.
pub struct Reduced<R: Reduce> {
    /// The names and the version.
    meta: ObjectMeta,
    /// The reduced object.
    pub outcome: Outcome<R::Value>,
}

/// What came of reducing an object.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// This is kept.
    Kept(Item<T>),
    /// It is not one to keep.
    Ignored,
    /// Reducing it panicked, which was logged.
    Failed,
}

impl<R: Reduce> Clone for Reduced<R> {
    fn clone(&self) -> Self {
        Self {
            meta: self.meta.clone(),
            outcome: self.outcome.clone(),
        }
    }
}

impl<R: Reduce> Debug for Reduced<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(R::resource()).field(&self.outcome).finish()
    }
}

impl<R: Reduce> Reduced<R> {
    /// Parses and reduces an object.
    ///
    /// # Errors
    /// When it is not an object of the API.
    pub fn parse(text: &RawValue) -> Result<Self, serde_json::Error> {
        Parts::parse(text).map(Self::of)
    }

    /// Reduces an object that was [checked](Parts::check).
    #[must_use]
    pub fn of(parts: Parts<'_>) -> Self {
        Self {
            meta: names(&parts.meta),
            outcome: reduce::<R>(parts),
        }
    }

    /// Reduces the object of an answer. A watch often reports what was written before the answer arrives: a version that is cached
    /// is not reduced again.
    ///
    /// # Errors
    /// When it is protobuf that can't be read.
    pub(crate) fn of_answer(parts: Parts<'_>, cache: &Cache<R::Value>) -> Result<Self, protobuf::Error> {
        let version = parts.meta.resource_version.as_deref().unwrap_or_default();
        if let Some(cached) = cache.item(&Key::of(&parts.meta), version) {
            return Ok(Self {
                meta: names(&parts.meta),
                outcome: Outcome::Kept(cached),
            });
        }
        parts.check()?;
        Ok(Self::of(parts))
    }
}

/// Returns the names and the version in metadata.
fn names(meta: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        ..ObjectMeta::default()
    }
}

/// Reduces an object that was [checked](Parts::check).
#[must_use]
pub fn reduce<R: Reduce>(parts: Parts<'_>) -> Outcome<R::Value> {
    let annotations = parts.meta.annotations.iter().flatten();
    let annotations: usize = annotations.map(|(key, value)| key.len() + value.len()).sum();
    let is_large = parts.bytes() + annotations > LARGE;
    // The lock only limits memory, so a panic leaves no broken state.
    let _turn = is_large.then(|| PARSING.lock().unwrap_or_else(PoisonError::into_inner));
    let key = Key::of(&parts.meta);
    match guarded(R::resource(), &key, || R::reduce(parts)) {
        Some(Some(item)) => Outcome::Kept(item),
        Some(None) => Outcome::Ignored,
        None => Outcome::Failed,
    }
}

impl<'de, R: Reduce> Deserialize<'de> for Reduced<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

impl<R: Reduce> Resource for Reduced<R> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }

    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }

    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }

    fn api_version(dt: &ApiResource) -> Cow<'_, str> {
        dt.api_version.as_str().into()
    }

    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// Parses a part of an object of a kind that is always read as JSON. The error has no position in the text, which the caller never
/// sees.
///
/// # Errors
/// When the part does not have the type.
pub fn read<T: DeserializeOwned>(part: Part<'_>) -> Result<T, String> {
    let Part::Json(text) = part else {
        return Err("it is not JSON".to_owned());
    };
    serde_json::from_str(text.get()).map_err(|error| {
        let text = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        text.strip_suffix(&position).unwrap_or(&text).to_owned()
    })
}

/// Parses a part of an object, whether it is JSON or protobuf. Each type that is read from both makes the program larger.
///
/// # Errors
/// When the part does not have the type.
pub fn read_either<T: DeserializeOwned>(part: Part<'_>) -> Result<T, String> {
    match part {
        Part::Json(_) => read(part),
        Part::Protobuf(message) => message.read().map_err(|error| error.to_string()),
    }
}

/// The metadata of an object, without the fields that its managers own.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMeta {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<RawManager>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// A field manager, without the fields that it owns.
#[derive(Deserialize)]
struct RawManager {
    manager: Option<String>,
    operation: Option<String>,
    subresource: Option<String>,
}

impl RawMeta {
    fn into_meta(self) -> ObjectMeta {
        let managers = self.managed_fields.map(|managers| {
            let without_fields = |manager: RawManager| ManagedFieldsEntry {
                manager: manager.manager,
                operation: manager.operation,
                subresource: manager.subresource,
                ..ManagedFieldsEntry::default()
            };
            managers.into_iter().map(without_fields).collect()
        });
        ObjectMeta {
            annotations: self.annotations,
            creation_timestamp: self.creation_timestamp,
            deletion_grace_period_seconds: self.deletion_grace_period_seconds,
            deletion_timestamp: self.deletion_timestamp,
            finalizers: self.finalizers,
            generate_name: self.generate_name,
            generation: self.generation,
            labels: self.labels,
            managed_fields: managers,
            name: self.name,
            namespace: self.namespace,
            owner_references: self.owner_references,
            resource_version: self.resource_version,
            uid: self.uid,
            ..ObjectMeta::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crd::AppDeploy;
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;
    use crate::primary::Root;

    type App = Reduced<Root<AppDeploy>>;

    fn kept(object: &serde_json::Value) -> Item<Root<AppDeploy>> {
        match serde_json::from_str::<App>(&object.to_string()).unwrap().outcome {
            Outcome::Kept(item) => item,
            other => panic!("{other:?}"),
        }
    }

    fn app(spec: serde_json::Value) -> serde_json::Value {
        json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "spec": spec, "metadata": {"name": "web",
            "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2,
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
            "annotations": {"appdeploy.dev/restarted-at": "now", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}})
    }

    #[test]
    fn app_is_kept_with_its_spec_and_without_metadata_of_other_managers() {
        let item = kept(&app(json!({"image": "nginx"})));
        let Root::Readable(read) = item.value else {
            panic!("{:?}", item.value)
        };
        assert_eq!(
            (item.version.as_str(), read.spec.pod.container.image.as_str()),
            ("7", "nginx")
        );
        let annotations: Vec<_> = read.metadata.annotations.iter().flatten().collect();
        assert_eq!(annotations.len(), 1);
        assert_eq!(read.metadata.managed_fields, None);
    }

    #[test]
    fn unreadable_object_keeps_its_metadata_and_the_error() {
        let item = kept(&app(json!({"image": "nginx", "replicas": "three"})));
        let Root::Unreadable { meta, why } = item.value else {
            panic!("{:?}", item.value)
        };
        assert_eq!((meta.name.as_deref(), meta.generation), (Some("web"), Some(2)));
        let why = why.failure().to_string();
        assert!(why.contains("invalid type") && !why.contains("column"), "{why}");
    }

    #[test]
    fn answer_with_a_cached_version_is_not_reduced() {
        let cache = Cache::default();
        let answer = |image: &str, version: &str| {
            let mut object = app(json!({"image": image}));
            object["metadata"]["resourceVersion"] = version.into();
            let text = object.to_string();
            match App::of_answer(serde_json::from_str(&text).unwrap(), &cache)
                .unwrap()
                .outcome
            {
                Outcome::Kept(item) => item,
                other => panic!("{other:?}"),
            }
        };
        let image = |item: &Item<Root<AppDeploy>>| match &item.value {
            Root::Readable(app) => app.spec.pod.container.image.clone(),
            Root::Unreadable { why, .. } => panic!("{why:?}"),
        };
        let stored = answer("nginx", "7");
        assert_eq!(image(&stored), "nginx");
        cache.upsert(stored);
        // No API server sends another object with the same version.
        assert_eq!(image(&answer("httpd", "7")), "nginx");
        assert_eq!(image(&answer("httpd", "8")), "httpd");
    }

    #[test]
    fn oversized_spec_is_not_parsed() {
        let item = kept(&app(json!({"image": "nginx", "args": vec![0; 200_000]})));
        let Root::Unreadable { why, .. } = item.value else {
            panic!("{:?}", item.value)
        };
        assert!(
            why.failure().to_string().contains("at most 256 KiB"),
            "{}",
            why.failure()
        );
    }

    #[test]
    fn lists_and_watches_are_read() {
        let app = app(json!({"image": "nginx"}));
        let list = json!({"apiVersion": "v1", "items": [app, app], "kind": "List", "metadata": {}});
        let list: ObjectList<App> = serde_json::from_str(&list.to_string()).unwrap();
        assert_eq!(list.items.len(), 2);
        let event = format!("{{\"type\": \"ADDED\", \"object\": {app}}}");
        let event: WatchEvent<App> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Added(_)));
    }
}
