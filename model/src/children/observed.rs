//! The cached state of an app: its children, its pods and the IngressClasses of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::child::Child;
use super::{CHILDREN, ChildId, ChildKind};
use crate::desired::desired_hash;
use crate::pod::PodState;
use crate::unstored::describe;

/// The result of a cache lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached<T> {
    /// It exists.
    Present(T),
    /// It does not exist.
    Absent,
    /// Its kind can't be listed, so the object may exist and must not be written.
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

/// The cached state of one app at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The kinds of children that apps have.
    pub kinds: &'static [&'static ChildKind],
    /// The children of the app, and third-party objects that have the name of one.
    pub children: Vec<(ChildId, Arc<Child>)>,
    /// The kinds that can't be listed, and why. A child of these that is not in `children` may exist.
    pub unknown: Vec<(&'static ChildKind, String)>,
    /// The pods that carry the app's label.
    pub pods: Vec<PodState>,
    /// The IngressClasses of the cluster.
    pub ingress_classes: IngressClasses,
    /// The fields of children that the API server has not stored.
    pub dropped: Vec<DroppedFields>,
}

impl DroppedFields {
    /// Returns a sentence for the condition and the Event.
    #[must_use]
    pub fn message(&self) -> String {
        describe(&self.paths, &format!("{} {}", self.id.kind.kind, self.id.name))
    }
}

/// The fields of a child that the API server has not stored although they were sent. Sending them again would change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedFields {
    /// The child.
    pub id: ChildId,
    /// The hash of the desired child that was sent.
    pub content: u64,
    /// The paths of the fields.
    pub paths: Vec<String>,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            kinds: CHILDREN,
            children: Vec::new(),
            unknown: Vec::new(),
            pods: Vec::new(),
            ingress_classes: IngressClasses::default(),
            dropped: Vec::new(),
        }
    }
}

impl Observed {
    /// Returns one child.
    #[must_use]
    pub fn child(&self, id: &ChildId) -> Cached<&Child> {
        match self.children.iter().find(|(known, _)| known == id) {
            Some((_, child)) => Cached::Present(&**child),
            None if self.why_unknown(id.kind).is_some() => Cached::Unknown,
            None => Cached::Absent,
        }
    }

    /// Returns the fields of a desired child that the API server does not store.
    #[must_use]
    pub fn dropped(&self, id: &ChildId, desired: &Value) -> &[String] {
        let of_child = self.dropped.iter().find(|dropped| dropped.id == *id);
        let of_child = of_child.filter(|dropped| dropped.content == desired_hash(desired));
        of_child.map_or(&[], |dropped| &dropped.paths)
    }

    /// Returns the children of a kind.
    pub fn of(&self, kind: &ChildKind) -> impl Iterator<Item = (&ChildId, &Child)> {
        let all = self.children.iter().map(|(id, child)| (id, &**child));
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

    /// Records that a child exists, and replaces its previous state.
    pub fn insert(&mut self, id: ChildId, child: Child) {
        self.remove(&id);
        self.children.push((id, Arc::new(child)));
    }

    /// Records that a child does not exist.
    pub fn remove(&mut self, id: &ChildId) {
        self.children.retain(|(known, _)| known != id);
    }

    /// Returns the same without children of other owners, which the status must not report.
    #[must_use]
    pub fn ours(&self, uid: &str) -> Self {
        let mut ours = self.clone();
        ours.children.retain(|(_, child)| child.is_controlled_by(uid));
        ours
    }
}

/// The IngressClasses of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IngressClasses {
    /// The operator has no right to read them.
    #[default]
    Unreadable,
    /// They have been listed.
    Known {
        /// Their names.
        names: BTreeSet<String>,
        /// Whether one of them is the default.
        has_default: bool,
    },
}

impl IngressClasses {
    /// Whether a controller serves an Ingress of this class. `None` is an Ingress without a class.
    #[must_use]
    pub fn apply_to(&self, class: Option<&str>) -> bool {
        match (self, class) {
            (Self::Unreadable, _) => false,
            (Self::Known { names, .. }, Some(class)) => names.contains(class),
            (Self::Known { has_default, .. }, None) => *has_default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_applies_if_it_exists_or_is_the_default() {
        let classes = |has_default| IngressClasses::Known {
            names: ["traefik".to_owned()].into(),
            has_default,
        };
        assert!(classes(false).apply_to(Some("traefik")) && classes(true).apply_to(None));
        assert!(!classes(true).apply_to(Some("nginx")) && !classes(false).apply_to(None));
        assert!(!IngressClasses::Unreadable.apply_to(Some("traefik")));
    }
}
