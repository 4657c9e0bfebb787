//! What a watch tells of an app and its children, as far as it is measured.

use std::collections::BTreeMap;

use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::{CHILDREN, ChildKind};
use serde::Deserialize;
use serde_json::Value;

use crate::request::Key;

/// An object as a watch tells of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Object {
    /// The contender.
    pub metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// Who an object is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Its namespace; a list and a cluster-wide object have none.
    #[serde(default)]
    pub namespace: String,
    /// Its name; a list has none.
    #[serde(default)]
    pub name: String,
    /// Its identity.
    #[serde(default)]
    pub uid: String,
    /// The revision of the answer, or of the object.
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
    selector: Value,
    rules: Vec<Rule>,
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
struct Rule {
    #[serde(default)]
    host: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
}

impl Object {
    /// Returns the app that it is, or whose child it is: they have one name.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
        }
    }
}

/// What is known of one app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The status is about the spec as it stands; `None` if there is no app.
    told: Option<bool>,
    /// What is compared of each child that is there.
    children: BTreeMap<&'static str, String>,
}

impl Seen {
    /// Takes in that an object is there as it is now; `None` is the kind of the apps.
    pub fn apply(&mut self, kind: Option<&ChildKind>, object: &Object) {
        match kind {
            None => self.told = Some(object.metadata.generation == object.status.observed_generation),
            Some(kind) => drop(self.children.insert(kind.kind, detail(kind, object))),
        }
    }

    /// Takes in that an object is gone.
    pub fn delete(&mut self, kind: Option<&ChildKind>) {
        match kind {
            None => self.told = None,
            Some(kind) => drop(self.children.remove(kind.kind)),
        }
    }

    /// Whether all children are there, and the status is about the spec as it stands.
    #[must_use]
    pub fn is_converged(&self) -> bool {
        self.told == Some(true) && self.children.len() == CHILDREN.len()
    }

    /// Whether the Deployment has this image.
    #[must_use]
    pub fn has_image(&self, image: &str) -> bool {
        self.child(&DEPLOYMENT) == Some(image)
    }

    /// Returns what is compared of a child: the image of a Deployment, the selector of a Service, the host of an Ingress.
    #[must_use]
    pub fn child(&self, kind: &ChildKind) -> Option<&str> {
        self.children.get(kind.kind).map(String::as_str)
    }
}

fn detail(kind: &ChildKind, object: &Object) -> String {
    let spec = &object.spec;
    if *kind == DEPLOYMENT {
        spec.template.spec.containers.first().map(|one| one.image.clone())
    } else if *kind == SERVICE {
        Some(spec.selector.to_string())
    } else if *kind == INGRESS {
        spec.rules.first().map(|rule| rule.host.clone())
    } else {
        object.metadata.labels.get(crd::label::APP).cloned()
    }
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn child(spec: Value) -> Object {
        object(json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec}))
    }

    #[test]
    fn an_app_has_converged_when_all_is_there_and_told() {
        let app = |observed: i64| {
            object(json!({"metadata": {"name": "a", "generation": 2}, "status": {"observedGeneration": observed}}))
        };
        let mut seen = Seen::default();
        seen.apply(
            None,
            &object(json!({"metadata": {"name": "a", "generation": 1}, "spec": {}})),
        );
        for kind in CHILDREN {
            assert!(!seen.is_converged());
            seen.apply(Some(kind), &child(json!({})));
        }
        assert!(!seen.is_converged());
        seen.apply(None, &app(1));
        assert!(!seen.is_converged());
        seen.apply(None, &app(2));
        assert!(seen.is_converged());
        seen.delete(Some(&SERVICE));
        assert!(!seen.is_converged());
    }

    #[test]
    fn of_each_child_what_somebody_changes_is_compared() {
        let mut seen = Seen::default();
        let template = json!({"spec": {"containers": [{"name": "app", "image": "one"}]}});
        let deployment = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
        seen.apply(Some(&DEPLOYMENT), &child(deployment));
        seen.apply(Some(&SERVICE), &child(json!({"selector": {"app": "a"}})));
        seen.apply(Some(&INGRESS), &child(json!({"rules": [{"host": "a.b"}]})));
        let details = [&DEPLOYMENT, &SERVICE, &INGRESS].map(|kind| seen.child(kind).unwrap());
        assert_eq!(details, ["one", r#"{"app":"a"}"#, "a.b"]);
        assert!(seen.has_image("one") && !seen.has_image("two"));
    }
}
