//! Reads the route of an app from its Service and its Ingress.

use crd::{AppDeploySpec, Expose, NamedPort, Tls};
use serde_json::{Value, json};

use super::pod::{container, items, listens, number, port_of};
use super::{UnmappedField, rest};
use crate::children::SERVICE;
use crate::defaults;
use crate::desired::PORT;

/// Returns the container port to which a Service routes. Of several ports, the one with the name that the operator uses
/// counts, or the first.
#[must_use]
pub fn target_port(service: &Value, template: &Value) -> Option<i32> {
    let container = container(template)?;
    let service = defaults::filled(&SERVICE, service);
    let port = main(&service)?;
    port_of(&port["targetPort"], container).or_else(|| listens(container))
}

/// Returns the port of a Service by which the app is reached. The Service must have the defaults of the API server.
fn main(service: &Value) -> Option<&Value> {
    let tcp = || items(&service["spec"]["ports"]).filter(|port| port["protocol"] == "TCP");
    tcp().find(|port| port["name"] == PORT).or_else(|| tcp().next())
}

/// Returns the other ports of a Service than `port` and those of the spec, so that they can be kept next to the operator's port: with names that do not
/// conflict with it. Ports that route to the app's port refer to it by name, and so does the port by which the app was
/// reached, even if the app's port is another one now.
#[must_use]
pub fn extra_ports(service: &Value, template: &Value, port: i32, also: &[NamedPort]) -> Vec<Value> {
    let nothing = Value::Null;
    let container = container(template).unwrap_or(&nothing);
    let service = defaults::filled(&SERVICE, service);
    let main = main(&service);
    let is_also = |other: &Value| {
        also.iter()
            .any(|ours| number(&other["port"]) == Some(ours.port) && other["protocol"] == ours.protocol().as_str())
    };
    let others = items(&service["spec"]["ports"]).filter(|other| !is_ours(other, port) && !is_also(other));
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

/// Returns the unmapped fields of a Service. Other ports do not count, because they can be kept.
pub fn of_service(service: &Value, template: &Value, port: Option<i32>) -> Vec<UnmappedField> {
    const OWN: [&str; 6] = [
        "selector",
        "ports",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "healthCheckNodePort",
    ];
    let mut live = defaults::filled(&SERVICE, service)["spec"].clone();
    let mut unmapped = Vec::new();
    for offered in items(&live["ports"]) {
        // The same number with another target port.
        let target = container(template).and_then(|container| port_of(&offered["targetPort"], container));
        let elsewhere = port.is_some_and(|port| is_ours(offered, port)) && target.is_some() && target != port;
        let at = |field: &str, differs: bool| UnmappedField {
            path: format!("spec.ports[{}].{field}", offered["port"]),
            value: offered[field].clone(),
            differs,
        };
        if elsewhere {
            unmapped.push(at("targetPort", true));
        }
        if port.is_some_and(|port| is_ours(offered, port)) && offered["appProtocol"].is_string() {
            unmapped.push(at("appProtocol", false));
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
    unmapped.extend(rest);
    unmapped
}

/// Reads the public route of an app into `spec`, and returns the unmapped fields. `service` is the Service to which the
/// Ingress routes, with the pod template, if it is known.
pub fn of_ingress(
    spec: &mut AppDeploySpec,
    name: &str,
    namespace: &str,
    ingress: Option<&Value>,
    service: Option<(&Value, &Value)>,
) -> Vec<UnmappedField> {
    let Some(ingress) = ingress
        .map(|ingress| &ingress["spec"])
        .filter(|_| spec.pod.container.port.is_some())
    else {
        // A worker has no route, which is the same as no `expose`.
        if spec.pod.container.port.is_some() {
            spec.expose = Some(Expose::Cluster);
        }
        return Vec::new();
    };
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let routes_to_app = |path: &Value| {
        let backend = &path["backend"]["service"];
        let port = service.and_then(|(service, template)| backend_port(service, template, &backend["port"]));
        backend["name"] == name && port.is_none_or(|port| Some(port) == spec.pod.container.port)
    };
    let found = app_path(ingress, routes_to_app);
    let rule = &ingress["rules"][found.rule];
    let path = &rule["http"]["paths"][found.path];
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
    let mut unmapped = rest::of(
        "spec",
        &unmapped_parts(ingress, &found, host.as_deref(), secret),
        &json!({}),
    );
    for rest in &mut unmapped {
        // Rules and certificates are lists, which the operator owns as a whole.
        rest.differs = rest.path.starts_with("spec.rules") || rest.path.starts_with("spec.tls");
    }
    unmapped
}

/// The path of an Ingress that routes to the app.
struct AppPath {
    rule: usize,
    path: usize,
    /// Whether it routes to the app as a rendered path does.
    is_mapped: bool,
}

/// Returns the first path that is like a rendered one; otherwise the first that routes to the app, or the first of all.
fn app_path(ingress: &Value, routes_to_app: impl Fn(&Value) -> bool) -> AppPath {
    let rules = items(&ingress["rules"]).enumerate();
    let paths = rules.flat_map(|(rule, of)| {
        let paths = items(&of["http"]["paths"]).enumerate();
        paths.map(move |(path, is)| (rule, path, is))
    });
    let mut paths: Vec<(usize, usize, &Value)> = paths.filter(|(.., path)| routes_to_app(path)).collect();
    paths.sort_by_key(|(.., path)| !is_plain(path));
    match paths.first() {
        Some((rule, path, is)) => AppPath {
            rule: *rule,
            path: *path,
            is_mapped: is_plain(is),
        },
        None => AppPath {
            rule: 0,
            path: 0,
            is_mapped: false,
        },
    }
}

/// Returns the container port to which the backend port of an Ingress routes through a Service.
fn backend_port(service: &Value, template: &Value, port: &Value) -> Option<i32> {
    let service = defaults::filled(&SERVICE, service);
    let is_meant = |offered: &&Value| match port["name"].as_str() {
        Some(name) => offered["name"] == name,
        None => offered["port"] == port["number"],
    };
    let offered = items(&service["spec"]["ports"]).find(is_meant)?;
    port_of(&offered["targetPort"], container(template)?)
}

/// Returns an Ingress with only the parts that a spec can't express.
fn unmapped_parts(ingress: &Value, found: &AppPath, host: Option<&str>, secret: Option<&str>) -> Value {
    let mut parts = ingress.clone();
    if let Some(fields) = parts.as_object_mut() {
        fields.remove("ingressClassName");
    }
    let mut rules: Vec<Value> = items(&ingress["rules"]).cloned().collect();
    if let Some(rule) = rules.get_mut(found.rule) {
        if let Some(paths) = rule["http"]["paths"].as_array_mut()
            && found.is_mapped
        {
            paths.remove(found.path);
        }
        let is_mapped = rule["http"]["paths"].as_array().is_none_or(Vec::is_empty);
        if host.is_none() {
            rule["host"] = json!("every host");
        } else if is_mapped {
            rules.remove(found.rule);
        }
    }
    let others = |tls: &&Value| match tls["hosts"].as_array() {
        Some(hosts) if hosts.len() == 1 && host.is_some() => {
            hosts[0].as_str() != host || secret.is_none() || tls["secretName"].as_str() != secret
        }
        _ => true,
    };
    let tls: Vec<Value> = items(&ingress["tls"]).filter(others).cloned().collect();
    parts["rules"] = json!(rules);
    parts["tls"] = json!(tls);
    parts
}

/// Whether a path has the same effect as a rendered one. For `/`, all types but `Exact` are the same.
fn is_plain(path: &Value) -> bool {
    let kind = path["pathType"].as_str().unwrap_or_default();
    let is_root = path["path"].as_str().is_none_or(|path| path.is_empty() || path == "/");
    kind == "Prefix" || kind == "ImplementationSpecific" && is_root
}
