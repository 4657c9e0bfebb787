//! How an application is reached, read from its Service and its Ingress.

use crd::{AppDeploySpec, Expose, Tls};
use serde_json::{Value, json};

use super::pod::{container, items, listens, number, port_of};
use super::{Left, rest};
use crate::desired::PORT;
use crate::{ChildKind, defaults};

/// Returns the port of the pods that a Service leads to: where it has several, that of the one called as ours, or the
/// first.
#[must_use]
pub fn target(service: &Value, template: &Value) -> Option<i32> {
    let container = container(template)?;
    let service = defaults::filled(ChildKind::Service, service);
    let tcp = || items(&service["spec"]["ports"]).filter(|port| port["protocol"] == "TCP");
    let port = tcp().find(|port| port["name"] == PORT).or_else(|| tcp().next())?;
    port_of(&port["targetPort"], container).or_else(|| listens(container))
}

/// Returns the ports that a Service offers beside the one of ours, as they go on to be offered: under names that do
/// not collide with ours, those that lead to the application's port by its name.
#[must_use]
pub fn beside(service: &Value, template: &Value, port: i32) -> Vec<Value> {
    let nothing = Value::Null;
    let container = container(template).unwrap_or(&nothing);
    let service = defaults::filled(ChildKind::Service, service);
    let others = items(&service["spec"]["ports"]).filter(|other| !is_ours(other, port));
    let mut others: Vec<Value> = others.cloned().collect();
    for other in &mut others {
        if port_of(&other["targetPort"], container) == Some(port) {
            other["targetPort"] = json!(PORT);
        } else if let Some(number) = port_of(&other["targetPort"], container) {
            other["targetPort"] = json!(number);
        }
        if other["name"]
            .as_str()
            .is_none_or(|name| name.is_empty() || name == PORT)
        {
            other["name"] = json!(format!("port-{}", other["port"]));
        }
        if let Some(fields) = other.as_object_mut() {
            fields.remove("nodePort");
        }
    }
    others
}

fn is_ours(offered: &Value, port: i32) -> bool {
    number(&offered["port"]) == Some(port) && offered["protocol"] == "TCP"
}

/// Returns what a Service says that ours does not. Further ports are none of it: they can stand beside.
pub fn of_service(service: &Value, template: &Value, port: Option<i32>) -> Vec<Left> {
    const OWN: [&str; 6] = [
        "selector",
        "ports",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "healthCheckNodePort",
    ];
    let mut live = defaults::filled(ChildKind::Service, service)["spec"].clone();
    let mut left = Vec::new();
    for offered in items(&live["ports"]) {
        // The same number, and another port behind it.
        let leads = container(template).and_then(|container| port_of(&offered["targetPort"], container));
        let elsewhere = port.is_some_and(|port| is_ours(offered, port)) && leads.is_some() && leads != port;
        if elsewhere {
            left.push(Left {
                path: format!("spec.ports[{}].targetPort", offered["port"]),
                value: offered["targetPort"].clone(),
                differs: true,
            });
        }
    }
    if let Some(fields) = live.as_object_mut() {
        let is_headless = fields.get("clusterIP").is_some_and(|ip| ip == "None");
        fields.retain(|field, _| !OWN.contains(&field.as_str()) && (field != "clusterIP" || is_headless));
    }
    let mut ours = defaults::filled(ChildKind::Service, &Value::Null);
    ours["spec"]["clusterIP"] = json!("");
    let mut rest = rest::of("spec", &live, &ours["spec"]);
    for rest in &mut rest {
        rest.differs |= rest.path == "spec.clusterIP";
    }
    left.extend(rest);
    left
}

/// Reads how the application is published, and returns what can't be said of it.
pub fn of_ingress(spec: &mut AppDeploySpec, name: &str, namespace: &str, ingress: Option<&Value>) -> Vec<Left> {
    let Some(ingress) = ingress
        .map(|ingress| &ingress["spec"])
        .filter(|_| spec.pod.port.is_some())
    else {
        // A worker has no way at all, which says the same as Ingress does.
        if spec.pod.port.is_some() {
            spec.expose = Expose::Service;
        }
        return Vec::new();
    };
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let rule = &ingress["rules"][0];
    let path = &rule["http"]["paths"][0];
    let host = text(&rule["host"]);
    spec.host = host.clone().filter(|host| *host != format!("{name}.{namespace}"));
    spec.path = text(&path["path"]).filter(|path| path != "/");
    spec.ingress_class_name = text(&ingress["ingressClassName"]);
    let covers = |tls: &&Value| {
        let hosts = &tls["hosts"];
        host.is_some()
            && hosts
                .as_array()
                .is_some_and(|hosts| hosts.iter().any(|of| text(of) == host))
    };
    let tls = items(&ingress["tls"]).find(covers);
    spec.tls = tls
        .and_then(|tls| text(&tls["secretName"]))
        .map(|secret_name| Tls { secret_name });
    let mut left = rest::of("spec", &beyond(ingress, host.as_deref(), name), &json!({}));
    for rest in &mut left {
        // Rules and certificates are one list each, which is ours as a whole.
        rest.differs = rest.path.starts_with("spec.rules") || rest.path.starts_with("spec.tls");
    }
    left
}

/// Returns the parts of an Ingress that can't be said, where they stand.
fn beyond(ingress: &Value, host: Option<&str>, name: &str) -> Value {
    let mut beyond = ingress.clone();
    if let Some(fields) = beyond.as_object_mut() {
        fields.remove("ingressClassName");
    }
    let mut rules: Vec<Value> = items(&ingress["rules"]).cloned().collect();
    if let Some(first) = rules.first_mut() {
        if let Some(paths) = first["http"]["paths"].as_array_mut()
            && paths.first().is_some_and(|path| is_plain(path, name))
        {
            paths.remove(0);
        }
        let is_said = first["http"]["paths"].as_array().is_none_or(Vec::is_empty);
        if host.is_none() {
            first["host"] = json!("every host");
        } else if is_said {
            rules.remove(0);
        }
    }
    let others = |tls: &&Value| match tls["hosts"].as_array() {
        Some(hosts) if hosts.len() == 1 && host.is_some() => {
            hosts[0].as_str() != host || tls["secretName"].as_str().is_none_or(str::is_empty)
        }
        _ => true,
    };
    let tls: Vec<Value> = items(&ingress["tls"]).filter(others).cloned().collect();
    beyond["rules"] = json!(rules);
    beyond["tls"] = json!(tls);
    beyond
}

/// Whether a path leads to the Service and means what ours does. What a controller makes of `/` is the same for every
/// type but `Exact`.
fn is_plain(path: &Value, name: &str) -> bool {
    let kind = path["pathType"].as_str().unwrap_or_default();
    let is_root = path["path"].as_str().is_none_or(|path| path.is_empty() || path == "/");
    let leads = path["backend"]["service"]["name"] == name;
    leads && (kind == "Prefix" || kind == "ImplementationSpecific" && is_root)
}
