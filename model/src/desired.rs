//! The children that an application is made of, as Kubernetes objects.
//!
//! Rendering can't fail: it takes a [`Valid`] application. The same bytes come out for the operator, for
//! `--dry-run` and for `export`.

pub(crate) mod pod_template;

pub(crate) use pod_template::pod_spec;

use std::collections::BTreeMap;

use crd::{annotation, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Serialize;
use serde_json::{Value, json};

use crate::children::CHILDREN;
use crate::digest::stable_hash;
use crate::{ChildId, ChildKind, Valid, later};

/// The name of the one container, and of the port wherever a port has a name.
pub const CONTAINER: &str = "app";
/// The name of the port in the container and in the Service.
pub const PORT: &str = "http";

/// The children that an app has, in the order in which they are written. Others of ours are pruned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired(Vec<Wanted>);

/// One child as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its kind and name.
    pub id: ChildId,
    /// The object that is sent.
    pub object: Value,
}

impl Desired {
    /// Returns all children.
    pub fn iter(&self) -> impl Iterator<Item = &Wanted> {
        self.0.iter()
    }

    /// Returns the children of a kind.
    pub fn of(&self, kind: &ChildKind) -> impl Iterator<Item = &Wanted> {
        self.iter().filter(move |wanted| wanted.id.kind == kind)
    }

    /// Returns the child of a kind that an app has at most one of.
    #[must_use]
    pub fn first(&self, kind: &ChildKind) -> Option<&Value> {
        self.of(kind).map(|wanted| &wanted.object).next()
    }

    /// Whether the app has a child of this kind and name.
    #[must_use]
    pub fn contains(&self, id: &ChildId) -> bool {
        self.iter().any(|wanted| wanted.id == *id)
    }

    /// Keeps only the children of some kinds.
    pub fn retain(&mut self, is_kept: impl Fn(&ChildKind) -> bool) {
        self.0.retain(|wanted| is_kept(wanted.id.kind));
    }
}

/// Renders the children of an app.
#[must_use]
pub fn desired(app: &Valid<'_>) -> Desired {
    render(CHILDREN, app)
}

/// Renders the children of an app that are of these kinds.
#[must_use]
pub fn render(kinds: &[&'static ChildKind], app: &Valid<'_>) -> Desired {
    let of_kind = |kind: &&'static ChildKind| {
        let kind = *kind;
        (kind.render)(app).into_iter().map(move |object| Wanted {
            id: ChildId::new(kind, object["metadata"]["name"].as_str().unwrap_or_default()),
            object,
        })
    };
    Desired(kinds.iter().flat_map(of_kind).collect())
}

/// Returns the label that selects an application's pods. A selector is immutable, so this never changes.
#[must_use]
pub fn selector(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(label::APP.to_owned(), name.to_owned())])
}

fn labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (label::APP.to_owned(), name.to_owned()),
        (label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned()),
        (label::NAME.to_owned(), name.to_owned()),
    ])
}

/// Returns the labels of pods. No other: a label whose value is the name of an app is one that anyone can choose, and a
/// Service of another application may select pods by it.
fn pod_labels(name: &str) -> BTreeMap<String, String> {
    let mut labels = selector(name);
    labels.insert(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned());
    labels
}

/// Name, labels and the owner reference by which the garbage collector and the operator know a child.
/// Nothing that a person writes on the AppDeploy is copied: an annotation can be an instruction to an ingress
/// controller.
#[must_use]
pub fn meta(app: &Valid<'_>) -> ObjectMeta {
    ObjectMeta {
        name: Some(app.name.clone()),
        namespace: Some(app.namespace.clone()),
        labels: Some(labels(&app.name)),
        owner_references: (!app.uid.is_empty()).then(|| {
            vec![OwnerReference {
                api_version: format!("{}/{}", crd::GROUP, crd::VERSION),
                kind: "AppDeploy".into(),
                name: app.name.clone(),
                uid: app.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]
        }),
        ..ObjectMeta::default()
    }
}

/// Turns a typed object into what is sent, with the hash of itself as an annotation.
#[must_use]
pub fn finish(kind: &ChildKind, object: &impl Serialize) -> Value {
    // A typed object always serialises: its keys are text.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(kind.api_version());
    value["kind"] = json!(kind.kind);
    value["metadata"]["annotations"][annotation::DESIRED_HASH] =
        json!(format!("{:016x}", stable_hash(&later::original(&value))));
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::{DEPLOYMENT, INGRESS};
    use crate::validate;

    fn render(name: &str, spec: Value) -> Desired {
        let app = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": name, "namespace": "default", "uid": "u1"}, "spec": spec,
        }))
        .unwrap();
        desired(&validate(&app).unwrap())
    }

    #[test]
    fn an_app_with_every_field() {
        let objects = render(
            "shop",
            json!({
                "image": "ghcr.io/acme/shop:1.4", "replicas": 3, "port": 8080, "host": "shop.example.com", "path": "/cart",
                "ingressClassName": "traefik", "tls": {"secretName": "shop-tls"},
                "env": [{"name": "MODE", "value": "live"},
                        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "look", "key": "colour", "optional": true}}}],
                "command": ["/shop"], "args": ["--verbose"],
                "resources": {"requests": {"cpu": 0.5, "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
                "healthCheck": {"path": "/healthz", "startupSeconds": 30},
                "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "registry"}], "securityProfile": "Restricted"
            }),
        );
        insta::assert_yaml_snapshot!(objects.iter().map(|wanted| &wanted.object).collect::<Vec<_>>());
    }

    #[test]
    fn the_smallest_app() {
        let objects = render("nginx", json!({"image": "nginx", "port": 80}));
        insta::assert_yaml_snapshot!(objects.iter().map(|wanted| &wanted.object).collect::<Vec<_>>());
    }

    #[test]
    fn a_worker_is_a_deployment_alone() {
        let children = render("worker", json!({"image": "busybox"}));
        let kinds: Vec<_> = children.iter().map(|wanted| wanted.id.kind).collect();
        assert_eq!(kinds, [&DEPLOYMENT]);
        let deployment = children.first(&DEPLOYMENT).unwrap();
        assert_eq!(deployment.pointer("/spec/template/spec/containers/0/ports"), None);
    }

    #[test]
    fn the_host_changes_the_ingress_alone() {
        let before = render("web", json!({"image": "nginx", "port": 80}));
        let after = render("web", json!({"image": "nginx", "port": 80, "host": "web.example.com"}));
        assert_eq!(changed(&before, &after), [&INGRESS]);
    }

    #[test]
    fn the_image_changes_the_deployment_alone() {
        let before = render("web", json!({"image": "nginx", "port": 80}));
        let after = render("web", json!({"image": "nginx:1.27", "port": 80}));
        assert_eq!(changed(&before, &after), [&DEPLOYMENT]);
    }

    fn changed(before: &Desired, after: &Desired) -> Vec<&'static ChildKind> {
        let kinds = CHILDREN.iter().copied();
        kinds.filter(|kind| before.first(kind) != after.first(kind)).collect()
    }
}
