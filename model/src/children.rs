//! The kinds of children that an app has: one file for each, and one table.
//!
//! Everything that depends on the kind of a child is a field of [`ChildKind`]. Watches, caches, the plan, the applier,
//! metrics and the plugin iterate over [`CHILDREN`], so a new kind is a file here and a line in the table.

mod child;
mod deployment;
mod ingress;
mod observed;
mod pod_monitor;
mod service;
mod service_account;

use std::fmt;
use std::hash::{Hash, Hasher};

use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::Valid;
use crate::diagnose::{Diagnosis, Subject};

pub use child::{Child, ChildState, Managers, Owner, Rollout, controller};
pub use deployment::DEPLOYMENT;
pub(crate) use deployment::settings;
pub use ingress::INGRESS;
pub(crate) use ingress::awaits_address;
pub use observed::{Cached, DroppedFields, IngressClasses, Observed};
pub use pod_monitor::POD_MONITOR;
pub use service::SERVICE;
pub(crate) use service::{SCRAPE, SCRAPED_PATH, SCRAPED_PORT};
pub use service_account::SERVICE_ACCOUNT;

/// All kinds, in the order in which children are written.
pub static CHILDREN: &[&ChildKind] = &[&SERVICE_ACCOUNT, &DEPLOYMENT, &SERVICE, &POD_MONITOR, &INGRESS];

/// A kind of child.
#[derive(Clone)]
pub struct ChildKind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The API version, such as `v1`.
    pub version: &'static str,
    /// The kind, such as `Service`.
    pub kind: &'static str,
    /// The plural name, as in URLs and access rules.
    pub plural: &'static str,
    /// Whether every cluster serves the API.
    pub api: Api,
    /// Renders the children of this kind that an app has: none, one, or several with their own names.
    pub render: fn(&Valid<'_>) -> Vec<Value>,
    /// Reads the state of a live object, from its metadata and its other fields.
    pub read: fn(&ObjectMeta, &Value) -> ChildState,
    /// Returns why the app is not ready because of this child, or `None` if it is healthy.
    pub health: fn(Health<'_>) -> Option<Diagnosis>,
    /// The top-level fields that the digest covers, next to labels, annotations and owner references.
    pub digest: &'static [&'static str],
    /// What happens to a child that the app no longer has.
    pub prune: Prune,
    /// What the operator's role must allow.
    pub verbs: &'static [&'static str],
    /// Whether children have their own names. Otherwise an app has at most one, with the app's name, and an object with
    /// another name is not a child, even if its owner reference says so.
    pub own_names: bool,
    /// The kind that this one sends requests to. A child is written only while its target is controlled by the app, and
    /// deleted if a third-party object has the target's name, because it would publish that object.
    pub routes_to: Option<&'static Self>,
    /// The kind of the child that this one refers to, if the app has one. A child is written only while the app controls it:
    /// with a third-party object of that name, the pods would run as another ServiceAccount. Unlike with `routes_to`, nothing
    /// is deleted.
    pub needs: Option<&'static Self>,
    /// Whether only apps have such a child whose spec has a field for it. The plugin reads it only for these apps: a user may have
    /// no right to it.
    pub on_request: bool,
    /// Whether a child serves a host, which must be reserved before it is written.
    pub serves_hosts: bool,
    /// Fills in the defaults of the API server.
    pub defaults: fn(&mut Value),
    /// Returns the `spec` of a strategic merge patch that removes all other ports, if the kind has ports.
    pub ports_patch: fn(&Value) -> Option<Value>,
    /// Renders the child as it was last written, if the live child records that. Without a record every write may remove a
    /// field, which costs a request.
    pub rendered_before: fn(&Valid<'_>, &Child) -> Option<Value>,
}

/// Whether every cluster serves an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// It is part of Kubernetes. The operator is not ready before it has listed the kind.
    Required,
    /// It may be missing. Only apps that have such a child are affected then.
    Optional,
}

/// What happens to a child that the app no longer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prune {
    /// It is deleted.
    Delete,
    /// It is deleted when the Deployment is rolled out, because pods of the previous revision may use it.
    AfterRollout,
    /// It is kept until the app is deleted.
    Keep,
}

/// The input of [`ChildKind::health`].
#[derive(Clone, Copy)]
pub struct Health<'a> {
    /// The app.
    pub subject: Subject<'a>,
    /// Its spec.
    pub valid: &'a Valid<'a>,
    /// The cached state of the app.
    pub observed: &'a Observed,
}

impl ChildKind {
    /// Returns a kind of a required API that has a `spec`, is pruned, and has no state and no health. A definition overrides
    /// the other fields.
    #[must_use]
    pub const fn new([group, version, kind, plural]: [&'static str; 4], render: fn(&Valid<'_>) -> Vec<Value>) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            api: Api::Required,
            render,
            read: |_, _| ChildState::None,
            health: |_| None,
            digest: &["spec"],
            prune: Prune::Delete,
            verbs: &["create", "delete", "get", "list", "patch", "watch"],
            own_names: false,
            routes_to: None,
            needs: None,
            on_request: false,
            serves_hosts: false,
            defaults: |_| {},
            ports_patch: |_| None,
            rendered_before: |_, _| None,
        }
    }

    /// Whether an app has such a child, or may have one.
    #[must_use]
    pub fn may_be_of(&self, app: Option<&Valid<'_>>) -> bool {
        !self.on_request || app.is_some_and(|app| !(self.render)(app).is_empty())
    }

    /// Returns the kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.kind
    }

    /// Returns group and version, as in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the path of the API, such as `api/v1` or `apis/apps/v1`.
    #[must_use]
    pub fn api_path(&self) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("{root}/{}", self.api_version())
    }

    /// Returns the path of the collection in a namespace.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        format!("/{}/namespaces/{namespace}/{}", self.api_path(), self.plural)
    }
}

/// Two definitions with the same group and kind are equal.
impl PartialEq for ChildKind {
    fn eq(&self, other: &Self) -> bool {
        (self.group, self.kind) == (other.group, other.kind)
    }
}

impl Eq for ChildKind {}

impl Hash for ChildKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.group, self.kind).hash(state);
    }
}

impl fmt::Debug for ChildKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

impl fmt::Display for ChildKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// Names a child within the namespace of its app.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChildId {
    /// Its kind.
    pub kind: &'static ChildKind,
    /// Its name.
    pub name: String,
}

impl ChildId {
    /// Returns the id of the child of a kind and name.
    #[must_use]
    pub fn new(kind: &'static ChildKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Lists kinds in a sentence: "Deployment, Service and Ingress".
#[must_use]
pub fn names(kinds: &[&ChildKind]) -> String {
    match kinds {
        [] => "children".to_owned(),
        [only] => only.kind.to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(|kind| kind.kind).collect();
            format!("{} and {last}", first.join(", "))
        }
    }
}

/// Returns a list that replaces the live one in a strategic merge patch.
fn replace_list(items: &Value) -> Option<Value> {
    let mut list = vec![json!({"$patch": "replace"})];
    list.extend(items.as_array()?.iter().cloned());
    Some(json!(list))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::validate;

    /// Otherwise a wanted field would always be missing from the digest of the live child, and be written forever.
    #[test]
    fn digest_covers_every_field_that_is_rendered() {
        let app = serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "spec": {"image": "nginx", "port": 80, "serviceAccount": {"annotations": {"a": "b"}}, "metrics": {}}}))
        .unwrap();
        for kind in CHILDREN {
            let rendered = (kind.render)(&validate(&app).unwrap());
            assert!(!rendered.is_empty(), "{kind}");
            for object in rendered {
                let fields = object.as_object().unwrap().keys().map(String::as_str);
                let fields: BTreeSet<&str> = fields
                    .filter(|field| !["apiVersion", "kind", "metadata"].contains(field))
                    .collect();
                assert!(
                    fields.iter().all(|field| kind.digest.contains(field)),
                    "{kind}: {fields:?}"
                );
                assert_eq!(
                    (&object["apiVersion"], &object["kind"]),
                    (&json!(kind.api_version()), &json!(kind.kind))
                );
            }
        }
    }

    #[test]
    fn target_of_a_kind_is_written_before_it() {
        for (place, kind) in CHILDREN.iter().enumerate() {
            for target in kind.routes_to.into_iter().chain(kind.needs) {
                assert!(CHILDREN[..place].contains(&target), "{kind}");
            }
        }
    }

    #[test]
    fn kinds_are_named_in_sentences() {
        assert_eq!(
            names(&[&DEPLOYMENT, &SERVICE, &INGRESS]),
            "Deployment, Service and Ingress"
        );
        assert_eq!(names(&[&SERVICE]), "Service");
    }
}
