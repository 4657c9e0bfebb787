//! What was seen of an application's children: the few values that decisions and the status are made of.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;
use serde_json::Value;

use crate::Digest;
use crate::children::{CHILDREN, ChildId, ChildKind, DEPLOYMENT};
use crate::host::Place;
use crate::inverse::Additions;
use crate::pod::PodState;

/// What a cache says about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached<T> {
    /// It exists.
    Present(T),
    /// It does not exist.
    Absent,
    /// Its kind can't be listed; nothing is concluded and nothing is written.
    Unknown,
}

impl<T> Cached<T> {
    /// Returns the object, if it exists.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Unknown => None,
        }
    }
}

/// What the caches hold about one app at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The kinds of children that apps have.
    pub kinds: &'static [&'static ChildKind],
    /// The children of the app, and third-party objects that have the name of one.
    pub children: Vec<(ChildId, Child)>,
    /// The kinds that can't be listed, and why. A child of these that is not in `children` may exist.
    pub unknown: Vec<(&'static ChildKind, String)>,
    /// The pods that carry the app's label.
    pub pods: Vec<PodState>,
    /// The IngressClasses of the cluster.
    pub ingress_classes: IngressClasses,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            kinds: CHILDREN,
            children: Vec::new(),
            unknown: Vec::new(),
            pods: Vec::new(),
            ingress_classes: IngressClasses::default(),
        }
    }
}

impl Observed {
    /// Returns one child.
    #[must_use]
    pub fn child(&self, id: &ChildId) -> Cached<&Child> {
        match self.children.iter().find(|(known, _)| known == id) {
            Some((_, child)) => Cached::Present(child),
            None if self.why_unknown(id.kind).is_some() => Cached::Unknown,
            None => Cached::Absent,
        }
    }

    /// Returns the children of a kind.
    pub fn of(&self, kind: &ChildKind) -> impl Iterator<Item = (&ChildId, &Child)> {
        let all = self.children.iter().map(|(id, child)| (id, child));
        all.filter(move |(id, _)| id.kind == kind)
    }

    /// Returns the child of a kind that an app has at most one of.
    #[must_use]
    pub fn first(&self, kind: &ChildKind) -> Option<&Child> {
        self.of(kind).map(|(_, child)| child).next()
    }

    /// Returns why a kind can't be listed; `None` if it can.
    #[must_use]
    pub fn why_unknown(&self, kind: &ChildKind) -> Option<&str> {
        let mut unknown = self.unknown.iter();
        unknown.find(|(of, _)| *of == kind).map(|(_, why)| &**why)
    }

    /// Returns the state of the Deployment.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        self.first(&DEPLOYMENT).and_then(Child::rollout)
    }

    /// Records that a child exists, in place of what was known of it.
    pub fn insert(&mut self, id: ChildId, child: Child) {
        self.remove(&id);
        self.children.push((id, child));
    }

    /// Records that a child does not exist.
    pub fn remove(&mut self, id: &ChildId) {
        self.children.retain(|(known, _)| known != id);
    }

    /// Returns the same without the children of other owners: a status must not report their pods and addresses.
    #[must_use]
    pub fn ours(&self, uid: &str) -> Self {
        let mut ours = self.clone();
        ours.children.retain(|(_, child)| child.is_controlled_by(uid));
        ours
    }
}

/// One child, as small as it can be kept: a cluster may have ten thousands of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Child {
    /// The identity of this very object.
    pub uid: String,
    /// The UID in its controller reference.
    pub controller: Option<String>,
    /// Its controller, in words for the case that this is somebody else.
    pub foreign_owner: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// What its deletion waits for.
    pub finalizers: Vec<String>,
    /// The hash that was written with it.
    pub desired_hash: Option<String>,
    /// Who owns its fields.
    pub managers: Managers,
    /// The fingerprint of its labels, annotations, owner references and spec.
    pub digest: Digest,
    /// What its status says.
    pub state: ChildState,
}

/// What is kept of the spec and the status of a child.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ChildState {
    /// Nothing that matters.
    #[default]
    None,
    /// How far the rollout of its pods is.
    Rollout(Box<Rollout>),
    /// Its address, once it has one.
    Address(Option<String>),
    /// How it is published.
    Route {
        /// The IP or host name of its load balancer.
        address: Option<String>,
        /// It names a class.
        has_class: bool,
        /// The places that it serves.
        places: Box<[Place]>,
    },
}

/// How far a Deployment is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The Deployment controller has seen the current spec.
    pub observed: bool,
    /// Pods that are wanted.
    pub wanted: i32,
    /// Pods that exist.
    pub replicas: i32,
    /// Pods of the current template.
    pub updated: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that have been ready for long enough.
    pub available: i32,
    /// Why the ReplicaSet can't create pods.
    pub refused: Option<String>,
    /// It made no progress for `progressDeadlineSeconds`.
    pub overdue: bool,
    /// Somebody has paused it.
    pub paused: bool,
    /// The number of its newest revision.
    pub revision: Option<i64>,
    /// The spec that it was last written from, as JSON.
    pub revision_spec: Option<String>,
    /// What its pods have that this spec does not stand for.
    pub additions: Additions,
}

impl Rollout {
    /// Whether every wanted pod runs the current template and is available, and no other is left: what
    /// `kubectl rollout status` waits for.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.observed && self.updated == self.wanted && self.replicas == self.wanted && self.available == self.wanted
    }
}

/// Who owns the fields of a child, as far as the next write depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    /// The place, in `managedFields`, of what the first write (a POST) left there. While it is there, an apply
    /// can't remove a field.
    pub created_entry: Option<usize>,
    /// We have applied before.
    pub applied: bool,
    /// Somebody else sets the number of replicas through the scale subresource, as an autoscaler does.
    pub scaled_by: Option<String>,
}

/// The IngressClasses of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IngressClasses {
    /// We may not read them.
    #[default]
    Unreadable,
    /// They are these.
    Known {
        /// Their names.
        names: BTreeSet<String>,
        /// One of them is the default.
        has_default: bool,
    },
}

impl IngressClasses {
    /// Whether somebody looks after an Ingress of this class (`None`: of no class in particular).
    #[must_use]
    pub fn apply_to(&self, class: Option<&str>) -> bool {
        match (self, class) {
            (Self::Unreadable, _) => false,
            (Self::Known { names, .. }, Some(class)) => names.contains(class),
            (Self::Known { has_default, .. }, None) => *has_default,
        }
    }
}

impl Child {
    /// Reads a live object: its metadata, and its other fields as JSON.
    #[must_use]
    pub fn read(kind: &ChildKind, meta: &ObjectMeta, data: &Value) -> Self {
        let annotation = |key: &str| meta.annotations.as_ref()?.get(key).cloned();
        let whole = serde_json::json!({
            "metadata": {"labels": meta.labels, "annotations": meta.annotations, "ownerReferences": meta.owner_references},
        });
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            controller: controller(meta).map(|(_, uid)| uid.to_owned()),
            foreign_owner: foreign_owner(meta),
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            desired_hash: annotation(crd::annotation::DESIRED_HASH),
            managers: managers(meta),
            digest: Digest::of_parts(&whole, data, kind.digest),
            state: (kind.read)(meta, data),
        }
    }

    /// Whether the controller reference carries this UID: only then is the object ours to write or delete.
    #[must_use]
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_deref() == Some(uid)
    }

    /// Whether it belongs to an AppDeploy of this name that was deleted: the garbage collector is about to take it.
    #[must_use]
    pub fn is_left_by_a_predecessor(&self, name: &str) -> bool {
        self.foreign_owner.as_deref() == Some(&*another(&format!("AppDeploy {name}")))
    }

    /// Whether its controller is an AppDeploy of this name: the one that exists, or a predecessor.
    #[must_use]
    pub fn is_of_app(&self, name: &str) -> bool {
        self.is_left_by_a_predecessor(name)
    }

    /// Returns the places that an Ingress serves.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        match &self.state {
            ChildState::Route { places, .. } => places,
            _ => &[],
        }
    }

    /// Returns the state of a Deployment.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        match &self.state {
            ChildState::Rollout(rollout) => Some(rollout),
            _ => None,
        }
    }

    /// Returns the address of a Service or an Ingress.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        match &self.state {
            ChildState::Address(address) | ChildState::Route { address, .. } => address.as_deref(),
            _ => None,
        }
    }

    /// Whether an Ingress names its class.
    #[must_use]
    pub const fn has_class(&self) -> Option<bool> {
        match self.state {
            ChildState::Route { has_class, .. } => Some(has_class),
            _ => None,
        }
    }
}

/// Returns "Kind name" and the UID of the object's controller.
#[must_use]
pub fn controller(meta: &ObjectMeta) -> Option<(String, &str)> {
    let owner = meta
        .owner_references
        .as_ref()?
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    Some((format!("{} {}", owner.kind, owner.name), &owner.uid))
}

/// Names the controller of an object that is not ours. An AppDeploy is then another one, perhaps of the same
/// name: one that was deleted, and whose children the garbage collector is about to take.
#[must_use]
pub fn foreign_owner(meta: &ObjectMeta) -> Option<String> {
    let (owner, _) = controller(meta)?;
    let is_app = owner.starts_with("AppDeploy ");
    Some(if is_app { another(&owner) } else { owner })
}

fn another(owner: &str) -> String {
    format!("another {owner}")
}

fn managers(meta: &ObjectMeta) -> Managers {
    let mut managers = Managers::default();
    for (index, entry) in meta.managed_fields.iter().flatten().enumerate() {
        let ours = entry.manager.as_deref() == Some(crd::FIELD_MANAGER);
        match (
            entry.subresource.as_deref().unwrap_or_default(),
            entry.operation.as_deref(),
        ) {
            ("", Some("Update")) if ours => managers.created_entry = Some(index),
            ("", Some("Apply")) if ours => managers.applied = true,
            ("scale", _) if !ours => managers.scaled_by.clone_from(&entry.manager),
            _ => {}
        }
    }
    managers
}

/// Returns a text that is neither empty nor "None", which is the cluster IP of a headless Service.
pub(crate) fn address(data: &Value, pointer: &str) -> Option<String> {
    let text = data.pointer(pointer)?.as_str()?;
    (!text.is_empty() && text != "None").then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_is_complete_when_nothing_old_is_left() {
        let done = Rollout {
            observed: true,
            wanted: 2,
            replicas: 2,
            updated: 2,
            ready: 2,
            available: 2,
            ..Rollout::default()
        };
        assert!(done.is_complete());
        for not_done in [
            Rollout {
                observed: false,
                ..done.clone()
            },
            Rollout {
                replicas: 3,
                ..done.clone()
            },
            Rollout {
                updated: 1,
                ..done.clone()
            },
            Rollout {
                available: 1,
                ..done.clone()
            },
        ] {
            assert!(!not_done.is_complete(), "{not_done:?}");
        }
    }

    #[test]
    fn a_class_applies_if_it_exists_or_is_the_default() {
        let classes = |has_default| IngressClasses::Known {
            names: ["traefik".to_owned()].into(),
            has_default,
        };
        assert!(classes(false).apply_to(Some("traefik")) && classes(true).apply_to(None));
        assert!(!classes(true).apply_to(Some("nginx")) && !classes(false).apply_to(None));
        assert!(!IngressClasses::Unreadable.apply_to(Some("traefik")));
    }

    #[test]
    fn the_managers_of_a_child_are_read() {
        let meta: ObjectMeta = serde_json::from_value(json!({"managedFields": [
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status"},
            {"manager": "appdeploy", "operation": "Update"},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale"},
        ]}))
        .unwrap();
        let expected = Managers {
            created_entry: Some(1),
            applied: false,
            scaled_by: Some("kube-controller-manager".into()),
        };
        assert_eq!(managers(&meta), expected);
    }
}
