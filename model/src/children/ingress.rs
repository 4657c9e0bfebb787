//! The Ingress of an app: publishes its Service under a host.

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    IngressTLS, ServiceBackendPort,
};
use kube::core::ObjectMeta;
use serde_json::Value;

use super::child::{Child, ChildState, address};
use super::observed::{IngressClasses, Observed};
use super::{ChildKind, Health, SERVICE};
use crate::desired::{PORT, finish, meta};
use crate::diagnose::{Diagnosis, diagnosis};
use crate::ingress_path::IngressPath;
use crate::reason::Reason;
use crate::valid::Route;
use crate::{Valid, command};

/// The Ingress of an app that is exposed to the outside.
pub static INGRESS: ChildKind = ChildKind {
    read,
    health,
    routes_to: Some(&SERVICE),
    serves_hosts: true,
    ..ChildKind::new(["networking.k8s.io", "v1", "Ingress", "ingresses"], render)
};

fn render(app: &Valid<'_>) -> Vec<Value> {
    let Some(route) = app.route.as_ref().and_then(|route| route.ingress.as_ref()) else {
        return Vec::new();
    };
    let backend = IngressServiceBackend {
        name: app.name.clone(),
        port: Some(ServiceBackendPort {
            name: Some(PORT.into()),
            number: None,
        }),
    };
    let path = HTTPIngressPath {
        path: Some(route.path.clone()),
        path_type: "Prefix".into(),
        backend: IngressBackend {
            service: Some(backend),
            ..IngressBackend::default()
        },
    };
    let ingress = Ingress {
        metadata: meta(app),
        spec: Some(IngressSpec {
            ingress_class_name: route.class.clone(),
            rules: Some(vec![IngressRule {
                host: Some(route.host.clone()),
                http: Some(HTTPIngressRuleValue { paths: vec![path] }),
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
    };
    vec![finish(&INGRESS, &ingress)]
}

fn read(_: &ObjectMeta, data: &Value) -> ChildState {
    ChildState::Route {
        address: address(data, "/status/loadBalancer/ingress/0/ip")
            .or_else(|| address(data, "/status/loadBalancer/ingress/0/hostname")),
        has_class: address(data, "/spec/ingressClassName").is_some(),
        paths: paths(data),
    }
}

fn paths(data: &Value) -> Box<[IngressPath]> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let rules = data.pointer("/spec/rules").map(list).unwrap_or_default();
    let of = |rule: Value| {
        let paths = rule.pointer("/http/paths").map(list).unwrap_or_default();
        let read = move |path: Value| {
            Some(IngressPath::new(
                rule["host"].as_str()?,
                path["path"].as_str().unwrap_or("/"),
            ))
        };
        paths.into_iter().filter_map(read).collect::<Vec<_>>()
    };
    rules.into_iter().flat_map(of).collect()
}

fn health(of: Health<'_>) -> Option<Diagnosis> {
    let (subject, observed) = (of.subject, of.observed);
    let route = of.valid.route.as_ref()?;
    if let (Some(class), IngressClasses::Known { names, .. }) = (named_class(route), &observed.ingress_classes)
        && !names.contains(class)
    {
        let message = format!("the cluster has no IngressClass {class}, so nothing serves the Ingress");
        let next = "kubectl get ingressclass".into();
        return Some(diagnosis(Reason::NoIngressClass, &message, Some(next)));
    }
    if !subject.needs_address || !awaits_address(route, observed) {
        return None;
    }
    // Kubernetes sets the default class only when an Ingress is created.
    let is_older = |child: &Child| child.has_class() == Some(false);
    if named_class(route).is_none() && observed.first(&INGRESS).is_some_and(is_older) {
        let next = command!("kubectl delete ingress {} -n {}", subject.name, subject.namespace);
        return Some(diagnosis(
            Reason::NoIngressClass,
            "the Ingress is older than the default IngressClass of the cluster, and has none, so nothing serves it; \
             delete it: it is created again with the class",
            Some(next),
        ));
    }
    let next = command!("kubectl describe ingress {} -n {}", subject.name, subject.namespace);
    Some(diagnosis(
        Reason::AddressPending,
        "the ingress controller has not published an address yet",
        Some(next),
    ))
}

fn named_class(route: &Route) -> Option<&str> {
    route.ingress.as_ref()?.class.as_deref()
}

/// Whether an ingress controller exists for this route and has not published an address yet.
pub fn awaits_address(route: &Route, observed: &Observed) -> bool {
    route.ingress.as_ref().is_some_and(|ingress| {
        let has_address = |child: &Child| child.address().is_some();
        observed.ingress_classes.apply_to(ingress.class.as_deref())
            && !observed.first(&INGRESS).is_some_and(has_address)
    })
}
