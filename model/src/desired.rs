//! The children that an application is made of, as Kubernetes objects.
//!
//! Rendering can't fail: it takes a [`Valid`] application. The same bytes come out for the operator, for
//! `--dry-run` and for `export`.

mod pod_template;

pub(crate) use pod_template::pod_spec;

use std::collections::BTreeMap;

use crd::{PodFields, annotation, label};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    IngressTLS, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde_json::{Value, json};

use crate::digest::stable_hash;
use crate::valid::{IngressRoute, Route};
use crate::{ChildKind, Valid, later};

/// The name of the one container, and of the port wherever a port has a name.
pub const CONTAINER: &str = "app";
/// How long a pod must have run to count as available where nothing can be asked of it, in seconds.
const MIN_READY: i32 = 3;
/// The name of the port in the container and in the Service.
pub const PORT: &str = "http";

/// All children of one application. `None` is a child that is not wanted and is removed if it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Runs the pods.
    pub deployment: Value,
    /// Reaches them from inside the cluster.
    pub service: Option<Value>,
    /// Publishes them.
    pub ingress: Option<Value>,
}

impl Desired {
    /// Returns the wanted objects in the order in which they are written.
    #[must_use]
    pub fn objects(&self) -> Vec<(ChildKind, Option<&Value>)> {
        // Without `..`, so that a new kind of child does not compile until it is written too.
        let Self {
            deployment,
            service,
            ingress,
        } = self;
        vec![
            (ChildKind::Deployment, Some(deployment)),
            (ChildKind::Service, service.as_ref()),
            (ChildKind::Ingress, ingress.as_ref()),
        ]
    }
}

/// Renders the children of an application.
#[must_use]
pub fn desired(app: &Valid<'_>) -> Desired {
    Desired {
        deployment: deployment(app),
        service: app.route.as_ref().map(|route| service(app, route)),
        ingress: app
            .route
            .as_ref()
            .and_then(|route| route.ingress.as_ref())
            .map(|route| ingress(app, route)),
    }
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

pub(crate) fn deployment(app: &Valid<'_>) -> Value {
    let mut meta = meta(app);
    // All annotations together may have 256 KiB. Without the record of it, a very long spec still runs.
    if let Some(spec) = serde_json::to_string(app.pod)
        .ok()
        .filter(|spec| spec.len() < 200 * 1024)
    {
        meta.annotations
            .get_or_insert_default()
            .insert(annotation::REVISION_SPEC.to_owned(), spec);
    }
    finish(
        "apps/v1",
        "Deployment",
        &Deployment {
            metadata: meta,
            spec: Some(DeploymentSpec {
                replicas: Some(app.replicas),
                paused: app.paused.then_some(true),
                selector: LabelSelector {
                    match_labels: Some(selector(&app.name)),
                    ..LabelSelector::default()
                },
                template: pod_template::render(app),
                min_ready_seconds: min_ready(app.pod),
                ..DeploymentSpec::default()
            }),
            status: None,
        },
    )
}

/// Returns how long a pod must have run, in seconds. Of some nothing can be asked, so what counts is that they do not end
/// at once.
pub(crate) fn min_ready(pod: &PodFields) -> Option<i32> {
    (pod.port.is_none() && pod.health_check.is_none()).then_some(MIN_READY)
}

fn service(app: &Valid<'_>, route: &Route) -> Value {
    finish(
        "v1",
        "Service",
        &Service {
            metadata: meta(app),
            spec: Some(ServiceSpec {
                type_: Some("ClusterIP".into()),
                selector: Some(selector(&app.name)),
                ports: Some(vec![ServicePort {
                    name: Some(PORT.into()),
                    port: route.port,
                    // By name, so that pods of the old and of the new port are both reached while a change of
                    // the port rolls out.
                    target_port: Some(IntOrString::String(PORT.into())),
                    protocol: Some("TCP".into()),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            status: None,
        },
    )
}

fn ingress(app: &Valid<'_>, route: &IngressRoute) -> Value {
    finish(
        "networking.k8s.io/v1",
        "Ingress",
        &Ingress {
            metadata: meta(app),
            spec: Some(IngressSpec {
                ingress_class_name: route.class.clone(),
                rules: Some(vec![IngressRule {
                    host: Some(route.host.clone()),
                    http: Some(HTTPIngressRuleValue {
                        paths: vec![HTTPIngressPath {
                            path: Some(route.path.clone()),
                            path_type: "Prefix".into(),
                            backend: IngressBackend {
                                service: Some(IngressServiceBackend {
                                    name: app.name.clone(),
                                    port: Some(ServiceBackendPort {
                                        name: Some(PORT.into()),
                                        number: None,
                                    }),
                                }),
                                ..IngressBackend::default()
                            },
                        }],
                    }),
                }]),
                tls: route.tls_secret.as_ref().map(|secret| {
                    vec![IngressTLS {
                        hosts: Some(vec![route.host.clone()]),
                        secret_name: Some(secret.clone()),
                    }]
                }),
                ..IngressSpec::default()
            }),
            status: None,
        },
    )
}

/// Name, labels and the owner reference by which the garbage collector and the operator know a child.
/// Nothing that a person writes on the AppDeploy is copied: an annotation can be an instruction to an ingress
/// controller.
fn meta(app: &Valid<'_>) -> ObjectMeta {
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

/// Turns a typed object into what is sent, stamped with the hash of itself.
fn finish(api_version: &str, kind: &str, object: &impl Serialize) -> Value {
    // A typed object always serialises: its keys are text.
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    value["metadata"]["annotations"][annotation::DESIRED_HASH] =
        json!(format!("{:016x}", stable_hash(&later::original(&value))));
    value
}

#[cfg(test)]
mod tests {
    use super::*;
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
                "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "registry"}], "securityProfile": "restricted"
            }),
        );
        insta::assert_yaml_snapshot!(
            objects
                .objects()
                .into_iter()
                .map(|(_, object)| object)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_smallest_app() {
        let objects = render("nginx", json!({"image": "nginx", "port": 80}));
        insta::assert_yaml_snapshot!(
            objects
                .objects()
                .into_iter()
                .map(|(_, object)| object)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_worker_is_a_deployment_alone() {
        let Desired {
            deployment,
            service,
            ingress,
        } = render("worker", json!({"image": "busybox"}));
        assert_eq!((service, ingress), (None, None));
        assert_eq!(deployment.pointer("/spec/template/spec/containers/0/ports"), None);
    }

    #[test]
    fn the_host_changes_the_ingress_alone() {
        let before = render("web", json!({"image": "nginx", "port": 80}));
        let after = render("web", json!({"image": "nginx", "port": 80, "host": "web.example.com"}));
        assert_eq!(
            (&before.deployment, &before.service),
            (&after.deployment, &after.service)
        );
        assert_ne!(before.ingress, after.ingress);
    }

    #[test]
    fn the_image_changes_the_deployment_alone() {
        let before = render("web", json!({"image": "nginx", "port": 80}));
        let after = render("web", json!({"image": "nginx:1.27", "port": 80}));
        assert_eq!((&before.service, &before.ingress), (&after.service, &after.ingress));
        assert_ne!(before.deployment, after.deployment);
    }
}
