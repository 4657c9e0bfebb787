//! Reads admission reviews in memory that is bounded by the size of the body.
//!
//! Anyone who reaches the port chooses the body. A tree of a few MiB of `[0,0,…]` would take hundreds, so the body is
//! scanned, objects stay slices of it, and only parts of bounded size are turned into values.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::core::admission::Operation;
use kube::core::object::HasSpec;
use kube::core::{NamespaceResourceScope, Resource};
use model::Invalid;
use model::valid::check_size;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The most bytes of the author's description: names, groups and extra fields.
const MAX_USER: usize = 256 * 1024;

/// The most bytes of a name, an identifier, or another text that Kubernetes keeps short.
const MAX_TEXT: usize = 1024;

/// The most bytes of labels, of annotations and of finalizers, each. An API server stores at most 256 KiB of annotations;
/// written as JSON they may take more.
const MAX_MAP: usize = 1024 * 1024;

/// The description of a request. It owns its values, so that the body can be dropped.
#[derive(Debug)]
pub struct Request {
    /// Identifies the review. The answer carries it.
    pub uid: String,
    /// The kind of the object.
    pub kind: String,
    /// The name of the object; empty if it is to be generated.
    pub name: String,
    /// The namespace of the object.
    pub namespace: Option<String>,
    /// The operation on the object.
    pub operation: Operation,
    /// The author.
    pub user_info: UserInfo,
}

/// A review, as slices of its body.
#[derive(Debug)]
pub struct Review<'a> {
    /// The request.
    pub request: Request,
    object: Option<&'a RawValue>,
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: RawRequest<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest<'a> {
    uid: String,
    kind: RawKind,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    operation: Operation,
    #[serde(borrow)]
    user_info: &'a RawValue,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawKind {
    kind: String,
}

/// The parts of an object.
#[derive(Deserialize)]
struct RawObject<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

/// The metadata that decisions need. Managed fields, which are the largest part of it, are skipped.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMeta<'a> {
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
    #[serde(borrow)]
    owner_references: Option<&'a RawValue>,
}

/// The result of reading an object.
#[derive(Debug)]
pub enum Read<K> {
    /// It is missing or does not fit its schema, which the API server reports.
    Absent,
    /// It is larger than the limit.
    TooLarge(Invalid),
    /// The object, with the metadata that decisions need and without its status.
    Object(Box<K>),
}

impl<K> Read<K> {
    /// Returns the object, if it could be read.
    #[must_use]
    pub fn object(self) -> Option<K> {
        match self {
            Self::Object(object) => Some(*object),
            Self::Absent | Self::TooLarge(_) => None,
        }
    }
}

impl<'a> Review<'a> {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// Returns why it is not a review.
    pub fn parse(body: &'a [u8]) -> Result<Self, String> {
        let Envelope { request } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let texts = [&request.uid, &request.kind.kind, &request.name];
        if texts
            .into_iter()
            .chain(&request.namespace)
            .any(|text| text.len() > MAX_TEXT)
        {
            return Err(format!("a name is longer than {MAX_TEXT} bytes"));
        }
        if request.user_info.get().len() > MAX_USER {
            return Err(format!("userInfo is larger than {MAX_USER} bytes"));
        }
        let user_info = serde_json::from_str(request.user_info.get()).map_err(|error| error.to_string())?;
        Ok(Self {
            request: Request {
                uid: request.uid,
                kind: request.kind.kind,
                name: request.name,
                namespace: request.namespace,
                operation: request.operation,
                user_info,
            },
            object: request.object,
            old_object: request.old_object,
        })
    }

    /// Reads the object after the request.
    #[must_use]
    pub fn object<K: Reviewable>(&self) -> Read<K> {
        read(self.object)
    }

    /// Reads the stored object.
    #[must_use]
    pub fn old_object<K: Reviewable>(&self) -> Read<K> {
        read(self.old_object)
    }

    /// Whether the request does not change the spec, byte by byte.
    #[must_use]
    pub fn keeps_its_spec(&self) -> bool {
        let spec = |object: Option<&'a RawValue>| {
            let object: RawObject<'_> = serde_json::from_str(object?.get()).ok()?;
            object.spec
        };
        match (spec(self.object), spec(self.old_object)) {
            (Some(new), Some(old)) => new.get() == old.get(),
            _ => false,
        }
    }

    /// Returns the object, reduced to the fields that [`model::admit::label_patch`] reads; null if they are too large.
    #[must_use]
    pub fn outline(&self) -> Value {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Meta<'a> {
            #[serde(borrow)]
            name: Option<&'a RawValue>,
            #[serde(borrow)]
            labels: Option<&'a RawValue>,
        }
        let outline = || -> Option<Value> {
            let object: RawObject<'_> = serde_json::from_str(self.object?.get()).ok()?;
            let meta: Meta<'_> = part(object.metadata, usize::MAX)?;
            let name: Value = part(meta.name, MAX_TEXT)?;
            let labels: Value = part(meta.labels, MAX_TEXT * MAX_TEXT / 16)?;
            Some(json!({"metadata": {"name": name, "labels": labels}}))
        };
        outline().unwrap_or_default()
    }
}

/// Kinds whose objects are reviewed.
pub trait Reviewable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + HasSpec<Spec: DeserializeOwned> + Default
{
}

impl<K> Reviewable for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + HasSpec<Spec: DeserializeOwned> + Default
{
}

fn read<K: Reviewable>(object: Option<&RawValue>) -> Read<K> {
    let parts = || -> Option<RawObject<'_>> { serde_json::from_str(object?.get()).ok() };
    let Some(RawObject {
        metadata,
        spec: Some(spec),
    }) = parts()
    else {
        return Read::Absent;
    };
    if let Err(invalid) = check_size(spec.get().len()) {
        return Read::TooLarge(invalid);
    }
    let whole = || -> Option<K> {
        let mut object = K::default();
        *object.meta_mut() = meta(metadata)?;
        *object.spec_mut() = serde_json::from_str(spec.get()).ok()?;
        Some(object)
    };
    whole().map_or(Read::Absent, |object| Read::Object(Box::new(object)))
}

fn meta(raw: Option<&RawValue>) -> Option<ObjectMeta> {
    let raw: RawMeta<'_> = part(raw, usize::MAX)?;
    let labels: BTreeMap<String, String> = part(raw.labels, MAX_MAP)?;
    let annotations: BTreeMap<String, String> = part(raw.annotations, MAX_MAP)?;
    let finalizers: Vec<String> = part(raw.finalizers, MAX_USER)?;
    let owner_references: Vec<OwnerReference> = part(raw.owner_references, MAX_USER)?;
    Some(ObjectMeta {
        name: raw.name,
        generate_name: raw.generate_name,
        namespace: raw.namespace,
        uid: raw.uid,
        resource_version: raw.resource_version,
        generation: raw.generation,
        creation_timestamp: raw.creation_timestamp,
        deletion_timestamp: raw.deletion_timestamp,
        labels: Some(labels),
        annotations: Some(annotations),
        finalizers: Some(finalizers),
        owner_references: Some(owner_references),
        ..ObjectMeta::default()
    })
}

/// Reads a part; its default if it is absent, nothing if it is larger than `most` bytes or of another form.
fn part<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>, most: usize) -> Option<T> {
    let Some(raw) = raw else { return Some(T::default()) };
    (raw.get().len() <= most).then(|| serde_json::from_str(raw.get()).ok())?
}

#[cfg(test)]
mod tests {
    use crd::AppDeploy;

    use super::*;

    fn review(object: &str, old: &str) -> String {
        format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{"uid": "u",
            "kind": {{"group": "appdeploy.dev", "version": "v1alpha1", "kind": "AppDeploy"}}, "operation": "UPDATE",
            "userInfo": {{"username": "jane", "groups": ["a"]}}, "object": {object}, "oldObject": {old}}}}}"#
        )
    }

    #[test]
    fn object_is_parsed_without_managed_fields_and_status() {
        let object = r#"{"metadata": {"name": "shop", "namespace": "a", "annotations": {"k": "v"},
            "managedFields": [{"fieldsV1": {"f:spec": [0, 0, 0]}}]}, "spec": {"image": "nginx"}, "status": 7}"#;
        let body = review(object, "null");
        let review = Review::parse(body.as_bytes()).unwrap();
        assert_eq!(review.request.user_info.username.as_deref(), Some("jane"));
        let app: AppDeploy = review.object().object().unwrap();
        assert_eq!(app.spec.pod.container.image, "nginx");
        assert_eq!(app.metadata.annotations.unwrap()["k"], "v");
        assert_eq!((app.metadata.managed_fields, app.status), (None, None));
        assert!(matches!(review.old_object::<AppDeploy>(), Read::Absent));
        assert!(!review.keeps_its_spec());
    }

    #[test]
    fn large_spec_is_rejected_before_it_is_parsed() {
        let spec = |args: usize| {
            format!(
                r#"{{"metadata": {{}}, "spec": {{"image": "a", "args": [0{}]}}}}"#,
                ",0".repeat(args)
            )
        };
        let body = review(&spec(200_000), &spec(10));
        let review = Review::parse(body.as_bytes()).unwrap();
        let Read::TooLarge(invalid) = review.object::<AppDeploy>() else {
            panic!("it was read");
        };
        assert!(invalid.to_string().starts_with("spec: 391 KiB of JSON"), "{invalid}");
        assert!(matches!(review.old_object::<AppDeploy>(), Read::Absent));
        let same = super::tests::review(&spec(200_000), &spec(200_000));
        assert!(Review::parse(same.as_bytes()).unwrap().keeps_its_spec());
    }

    #[test]
    fn large_names_and_users_are_refused() {
        let long = "x".repeat(2000);
        let body = review("null", "null");
        assert!(Review::parse(body.replace("\"u\"", &format!("\"{long}\"")).as_bytes()).is_err());
        let groups = vec!["\"\""; 100_000].join(",");
        assert!(Review::parse(body.replace("\"a\"", &groups).as_bytes()).is_err());
        assert!(Review::parse(b"[]").is_err());
    }

    #[test]
    fn outline_has_the_fields_that_the_label_patch_reads() {
        let object =
            r#"{"metadata": {"name": "shop", "labels": {"a": "b"}, "uid": "u"}, "spec": {"host": "A", "args": []}}"#;
        let body = review(object, "null");
        assert_eq!(
            Review::parse(body.as_bytes()).unwrap().outline(),
            json!({"metadata": {"name": "shop", "labels": {"a": "b"}}})
        );
        let many = format!(
            r#"{{"metadata": {{"name": "shop", "labels": {{"a": "{}"}}}}}}"#,
            "x".repeat(100_000)
        );
        let body = review(&many, "null");
        assert_eq!(Review::parse(body.as_bytes()).unwrap().outline(), Value::Null);
    }
}
