//! The state of an app and its children, from watches.

use std::collections::BTreeMap;

use model::ChildKind;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use serde::Deserialize;

use crate::request::Key;

/// The kinds of children of the apps that are measured, in the order of the table.
pub static CHILDREN: [&ChildKind; 3] = [&DEPLOYMENT, &SERVICE, &INGRESS];

/// The fields of an object that are measured.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Object {
    /// The metadata.
    pub metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// The metadata of an object or a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The namespace; empty for lists and cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// The name; empty for lists.
    #[serde(default)]
    pub name: String,
    /// The UID.
    #[serde(default)]
    pub uid: String,
    /// The resource version of the list or the object.
    #[serde(default)]
    pub resource_version: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Container {
    image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
    cause: Option<Cause>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Cause {
    reason: String,
}

impl Object {
    /// Returns the key of the app or of the child's app, which have the same name.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
        }
    }
}

/// The state of one app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the status has observed the current generation; `None` if there is no app.
    is_observed: Option<bool>,
    /// The reason for which the status says that the app does not work.
    cause: Option<String>,
    children: BTreeMap<&'static str, Child>,
}

/// The state of one child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Child {
    /// The label that [`relabel`](crate::request::relabel) changes.
    label: Option<String>,
    /// The image of the pod template, if the kind has one.
    image: Option<String>,
}

impl Seen {
    /// Stores an object; the kind `None` is AppDeploy.
    pub fn apply(&mut self, kind: Option<&ChildKind>, object: &Object) {
        let Some(kind) = kind else {
            self.is_observed = Some(object.metadata.generation == object.status.observed_generation);
            self.cause = object.status.cause.as_ref().map(|cause| cause.reason.clone());
            return;
        };
        let container = object.spec.template.spec.containers.first();
        let child = Child {
            label: object.metadata.labels.get(crd::label::NAME).cloned(),
            image: container.map(|container| container.image.clone()),
        };
        self.children.insert(kind.kind, child);
    }

    /// Removes an object that was deleted.
    pub fn delete(&mut self, kind: Option<&ChildKind>) {
        match kind {
            None => (self.is_observed, self.cause) = (None, None),
            Some(kind) => drop(self.children.remove(kind.kind)),
        }
    }

    /// Returns whether all children exist, and the status has observed the current generation.
    #[must_use]
    pub fn is_converged(&self) -> bool {
        self.is_observed == Some(true) && self.children.len() == CHILDREN.len()
    }

    /// Returns whether the status says that the app does not work for this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.cause.as_deref() == Some(reason)
    }

    /// Returns whether the pod template has this image.
    #[must_use]
    pub fn has_image(&self, image: &str) -> bool {
        let mut images = self.children.values().filter_map(|child| child.image.as_deref());
        images.any(|other| other == image)
    }

    /// Returns the label of a child that [`relabel`](crate::request::relabel) changes; `None` if there is no child.
    #[must_use]
    pub fn label(&self, kind: &ChildKind) -> Option<&str> {
        self.children.get(kind.kind)?.label.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn app_has_converged_when_all_children_exist_and_the_status_is_current() {
        let app = |observed: i64| {
            object(json!({"metadata": {"name": "a", "generation": 2}, "status": {"observedGeneration": observed}}))
        };
        let child = object(json!({"metadata": {"name": "a", "namespace": "b"}}));
        let mut seen = Seen::default();
        seen.apply(
            None,
            &object(json!({"metadata": {"name": "a", "generation": 1}, "spec": {}})),
        );
        for kind in CHILDREN {
            assert!(!seen.is_converged());
            seen.apply(Some(kind), &child);
        }
        assert!(!seen.is_converged());
        seen.apply(None, &app(1));
        assert!(!seen.is_converged());
        seen.apply(None, &app(2));
        assert!(seen.is_converged());
        seen.delete(CHILDREN.last().copied());
        assert!(!seen.is_converged());
    }

    #[test]
    fn cause_is_read_until_the_app_works_again() {
        let mut seen = Seen::default();
        let failing =
            json!({"metadata": {"name": "a"}, "status": {"cause": {"reason": "CrashLoop", "message": "it exits"}}});
        seen.apply(None, &object(failing));
        assert!(seen.has_cause("CrashLoop") && !seen.has_cause("OOMKilled"));
        seen.apply(None, &object(json!({"metadata": {"name": "a"}, "status": {}})));
        assert!(!seen.has_cause("CrashLoop"));
    }

    #[test]
    fn label_and_image_of_any_kind_are_read() {
        let template = json!({"spec": {"containers": [{"name": "app", "image": "one"}]}});
        for kind in CHILDREN {
            let mut seen = Seen::default();
            let labels = json!({crd::label::NAME: "a", "other": "b"});
            seen.apply(
                Some(kind),
                &object(json!({"metadata": {"name": "a", "labels": labels}, "spec": {"template": template}})),
            );
            assert_eq!(seen.label(kind), Some("a"));
            assert!(seen.has_image("one") && !seen.has_image("two"));
        }
    }

    /// All other fields of a child's spec are ignored.
    #[test]
    fn rendered_children_are_read() {
        for write in crate::request::writes(&Key::of(0), "u1")
            .unwrap()
            .iter()
            .take(CHILDREN.len())
        {
            let read: Object = serde_json::from_slice(write.body()).unwrap();
            assert_eq!(read.key(), Key::of(0));
            assert_eq!(read.metadata.labels.get(crd::label::NAME), Some(&Key::of(0).name));
        }
    }
}
