//! How an application is reached, read from its Service and its Ingress.

use crd::{AppDeploySpec, Expose, Tls};
use serde_json::{Value, json};

use super::pod::{container, items, listens, number, port_of};
use super::{Left, rest};
use crate::children::SERVICE;
use crate::defaults;
use crate::desired::PORT;

/// Returns the port of the pods that a Service leads to: where it has several, that of the one called as ours, or the
/// first.
#[must_use]
pub fn target(service: &Value, template: &Value) -> Option<i32> {
    let container = container(template)?;
    let service = defaults::filled(&SERVICE, service);
    let port = main(&service)?;
    port_of(&port["targetPort"], container).or_else(|| listens(container))
}

/// Returns the port of a Service by which the application is reached, of those with defaults spelled out.
fn main(service: &Value) -> Option<&Value> {
    let tcp = || items(&service["spec"]["ports"]).filter(|port| port["protocol"] == "TCP");
    tcp().find(|port| port["name"] == PORT).or_else(|| tcp().next())
}

/// Returns the ports that a Service offers beside the one of ours, as they go on to be offered: under names that do
/// not collide with ours, those that lead to the application's port by its name. The one by which the application was reached
/// leads to its port, whichever that is now.
#[must_use]
pub fn beside(service: &Value, template: &Value, port: i32) -> Vec<Value> {
    let nothing = Value::Null;
    let container = container(template).unwrap_or(&nothing);
    let service = defaults::filled(&SERVICE, service);
    let main = main(&service);
    let others = items(&service["spec"]["ports"]).filter(|other| !is_ours(other, port));
    let mut others: Vec<Value> = others.cloned().collect();
    for other in &mut others {
        if Some(&*other) == main || port_of(&other["targetPort"], container) == Some(port) {
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
    let mut live = defaults::filled(&SERVICE, service)["spec"].clone();
    let mut left = Vec::new();
    for offered in items(&live["ports"]) {
        // The same number, and another port behind it.
        let leads = container(template).and_then(|container| port_of(&offered["targetPort"], container));
        let elsewhere = port.is_some_and(|port| is_ours(offered, port)) && leads.is_some() && leads != port;
        let at = |field: &str, differs: bool| Left {
            path: format!("spec.ports[{}].{field}", offered["port"]),
            value: offered[field].clone(),
            differs,
        };
        if elsewhere {
            left.push(at("targetPort", true));
        }
        if port.is_some_and(|port| is_ours(offered, port)) && offered["appProtocol"].is_string() {
            left.push(at("appProtocol", false));
        }
    }
    if let Some(fields) = live.as_object_mut() {
        let is_headless = fields.get("clusterIP").is_some_and(|ip| ip == "None");
        fields.retain(|field, _| !OWN.contains(&field.as_str()) && (field != "clusterIP" || is_headless));
    }
    let mut ours = defaults::filled(&SERVICE, &Value::Null);
    ours["spec"]["clusterIP"] = json!("");
    let mut rest = rest::of("spec", &live, &ours["spec"]);
    for rest in &mut rest {
        rest.differs |= rest.path == "spec.clusterIP";
    }
    left.extend(rest);
    left
}

/// Reads how the application is published, and returns what can't be said of it. `service` is the Service to which the Ingress
/// leads, if it is known.
pub fn of_ingress(
    spec: &mut AppDeploySpec,
    name: &str,
    namespace: &str,
    ingress: Option<&Value>,
    service: Option<(&Value, &Value)>,
) -> Vec<Left> {
    let Some(ingress) = ingress
        .map(|ingress| &ingress["spec"])
        .filter(|_| spec.pod.container.port.is_some())
    else {
        // A worker has no way at all, which says the same as no `expose`.
        if spec.pod.container.port.is_some() {
            spec.expose = Some(Expose::Cluster);
        }
        return Vec::new();
    };
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let leads = |path: &Value| {
        let backend = &path["backend"]["service"];
        let reached = service.and_then(|(service, template)| reached(service, template, &backend["port"]));
        backend["name"] == name && reached.is_none_or(|reached| Some(reached) == spec.pod.container.port)
    };
    let way = way(ingress, leads);
    let rule = &ingress["rules"][way.rule];
    let path = &rule["http"]["paths"][way.path];
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
    spec.tls = tls.and_then(|tls| text(&tls["secretName"])).map(|name| Tls {
        secret_name: Some(name),
    });
    let secret = spec.tls.as_ref().and_then(|tls| tls.secret_name.as_deref());
    let mut left = rest::of("spec", &beyond(ingress, &way, host.as_deref(), secret), &json!({}));
    for rest in &mut left {
        // Rules and certificates are one list each, which is ours as a whole.
        rest.differs = rest.path.starts_with("spec.rules") || rest.path.starts_with("spec.tls");
    }
    left
}

/// The path of an Ingress that is the application's.
struct Way {
    rule: usize,
    path: usize,
    /// It leads to the application and means what ours does.
    is_said: bool,
}

/// Returns the first path that is as ours would be; else the first that leads to the application, or the first of all.
fn way(ingress: &Value, leads: impl Fn(&Value) -> bool) -> Way {
    let rules = items(&ingress["rules"]).enumerate();
    let paths = rules.flat_map(|(rule, of)| {
        let paths = items(&of["http"]["paths"]).enumerate();
        paths.map(move |(path, is)| (rule, path, is))
    });
    let mut paths: Vec<(usize, usize, &Value)> = paths.filter(|(.., path)| leads(path)).collect();
    paths.sort_by_key(|(.., path)| !is_plain(path));
    match paths.first() {
        Some((rule, path, is)) => Way {
            rule: *rule,
            path: *path,
            is_said: is_plain(is),
        },
        None => Way {
            rule: 0,
            path: 0,
            is_said: false,
        },
    }
}

/// Returns the port of the pods to which a port of a Service leads that is named as an Ingress names it.
fn reached(service: &Value, template: &Value, port: &Value) -> Option<i32> {
    let service = defaults::filled(&SERVICE, service);
    let is_meant = |offered: &&Value| match port["name"].as_str() {
        Some(name) => offered["name"] == name,
        None => offered["port"] == port["number"],
    };
    let offered = items(&service["spec"]["ports"]).find(is_meant)?;
    port_of(&offered["targetPort"], container(template)?)
}

/// Returns the parts of an Ingress that can't be said, where they stand.
fn beyond(ingress: &Value, way: &Way, host: Option<&str>, secret: Option<&str>) -> Value {
    let mut beyond = ingress.clone();
    if let Some(fields) = beyond.as_object_mut() {
        fields.remove("ingressClassName");
    }
    let mut rules: Vec<Value> = items(&ingress["rules"]).cloned().collect();
    if let Some(rule) = rules.get_mut(way.rule) {
        if let Some(paths) = rule["http"]["paths"].as_array_mut()
            && way.is_said
        {
            paths.remove(way.path);
        }
        let is_said = rule["http"]["paths"].as_array().is_none_or(Vec::is_empty);
        if host.is_none() {
            rule["host"] = json!("every host");
        } else if is_said {
            rules.remove(way.rule);
        }
    }
    let others = |tls: &&Value| match tls["hosts"].as_array() {
        Some(hosts) if hosts.len() == 1 && host.is_some() => {
            hosts[0].as_str() != host || secret.is_none() || tls["secretName"].as_str() != secret
        }
        _ => true,
    };
    let tls: Vec<Value> = items(&ingress["tls"]).filter(others).cloned().collect();
    beyond["rules"] = json!(rules);
    beyond["tls"] = json!(tls);
    beyond
}

/// Whether a path means what ours does. What a controller makes of `/` is the same for every type but `Exact`.
fn is_plain(path: &Value) -> bool {
    let kind = path["pathType"].as_str().unwrap_or_default();
    let is_root = path["path"].as_str().is_none_or(|path| path.is_empty() || path == "/");
    kind == "Prefix" || kind == "ImplementationSpecific" && is_root
}
