//! The containers of a pod.

use std::collections::BTreeMap;

use crd::{
    EnvFromSource, EnvVar, HealthCheck, HttpScheme, ImagePullPolicy, NamedPort, OtherContainer, PodFields, Probe,
    Probes, Quantity, Resources,
};

use super::volume;
use crate::output::description::Page;

/// Writes the ports of the application in addition to the main one.
pub fn other_ports(page: &mut Page<'_>, pod: &PodFields) {
    page.list("Other Ports", &pod.container.ports.iter().map(port).collect::<Vec<_>>());
}

/// Writes the lines of the container of the application, except its image and its ports.
pub fn of_application(page: &mut Page<'_>, pod: &PodFields) {
    let container = &pod.container;
    let check = container.health_check.as_ref();
    let lines = Lines {
        pull_policy: container.image_pull_policy.map(ImagePullPolicy::as_str),
        command: &container.command,
        args: &container.args,
        resources: container.resources.as_ref(),
        health_check: check.map(|check| health_check(check, container.port)),
        probes: container.probes.as_deref(),
        env_from: &container.env_from,
        env: &container.env,
        mounts: volume::mounts(pod),
    };
    lines.write(page, "");
}

/// Writes the init containers and the sidecars.
pub fn others(page: &mut Page<'_>, pod: &PodFields) {
    if !pod.init_containers.is_empty() {
        page.heading("Init Containers");
        for container in &pod.init_containers {
            other(page, pod, container, None);
        }
    }
    if !pod.sidecars.is_empty() {
        page.heading("Sidecars");
        for sidecar in &pod.sidecars {
            other(page, pod, &sidecar.container, sidecar.probes.as_deref());
        }
    }
}

fn other(page: &mut Page<'_>, pod: &PodFields, container: &OtherContainer, probes: Option<&Probes>) {
    page.heading(&format!("  {}", container.name));
    page.line("    Image", &container.image);
    let lines = Lines {
        pull_policy: container.image_pull_policy.map(ImagePullPolicy::as_str),
        command: &container.command,
        args: &container.args,
        resources: container.resources.as_ref(),
        health_check: None,
        probes,
        env_from: &container.env_from,
        env: &container.env,
        mounts: volume::mounts_of(pod, &container.mounts),
    };
    lines.write(page, "    ");
}

/// What all containers can have.
struct Lines<'a> {
    pull_policy: Option<&'a str>,
    command: &'a [String],
    args: &'a [String],
    resources: Option<&'a Resources>,
    health_check: Option<String>,
    probes: Option<&'a Probes>,
    env_from: &'a [EnvFromSource],
    env: &'a [EnvVar],
    mounts: Vec<String>,
}

impl Lines<'_> {
    fn write(&self, page: &mut Page<'_>, indent: &str) {
        let command = (!self.command.is_empty()).then(|| words(self.command));
        let args = (!self.args.is_empty()).then(|| words(self.args));
        let requests = self.resources.and_then(|resources| amounts(&resources.requests));
        let limits = self.resources.and_then(|resources| amounts(&resources.limits));
        for (label, value) in [
            ("Pull Policy", self.pull_policy.map(str::to_owned)),
            ("Command", command),
            ("Args", args),
            ("Requests", requests),
            ("Limits", limits),
            ("Health Check", self.health_check.clone()),
        ] {
            if let Some(value) = value {
                page.line(&format!("{indent}{label}"), &value);
            }
        }
        for (name, probe) in self.probes.into_iter().flat_map(Probes::named) {
            let label = match name {
                "readiness" => "Readiness",
                "liveness" => "Liveness",
                _ => "Startup",
            };
            page.line(&format!("{indent}{label}"), &checks(probe));
        }
        let variables = self.env_from.iter().filter_map(all_keys);
        let variables: Vec<String> = variables.chain(self.env.iter().map(variable)).collect();
        page.list(&format!("{indent}Environment"), &variables);
        page.list(&format!("{indent}Mounts"), &self.mounts);
    }
}

fn port(port: &NamedPort) -> String {
    let (name, number, protocol) = (&port.name, port.port, port.protocol().as_str());
    let app_protocol = port.app_protocol.as_ref();
    let app_protocol = app_protocol.map(|protocol| format!(" (app protocol {protocol})"));
    format!("{name} {number}/{protocol}{}", app_protocol.unwrap_or_default())
}

/// Returns amounts of resources; `None` without any.
fn amounts(map: &BTreeMap<String, Quantity>) -> Option<String> {
    let amounts = map.iter().map(|(name, amount)| format!("{name}={amount}"));
    (!map.is_empty()).then(|| amounts.collect::<Vec<_>>().join(", "))
}

fn words(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"$\\".contains(c));
        if plain { word.clone() } else { format!("{word:?}") }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn variable(variable: &EnvVar) -> String {
    let name = &variable.name;
    let Some(source) = &variable.value_from else {
        return format!("{name}={}", variable.value.as_deref().unwrap_or_default());
    };
    if let Some(field) = &source.field_ref {
        return format!("{name} from field {}", field.field_path.as_str());
    }
    let (kind, key) = match (&source.secret_key_ref, &source.config_map_key_ref) {
        (Some(key), _) => ("Secret", key),
        (None, Some(key)) => ("ConfigMap", key),
        (None, None) => return format!("{name}=<unset>"),
    };
    let optional = optional(key.optional);
    format!("{name} from {kind} {}, key {}{optional}", key.name, key.key)
}

fn all_keys(source: &EnvFromSource) -> Option<String> {
    let (kind, object) = match (&source.secret_ref, &source.config_map_ref) {
        (Some(object), _) => ("Secret", object),
        (None, object) => ("ConfigMap", object.as_ref()?),
    };
    let prefix = source.prefix.as_ref().map(|prefix| format!(", prefix {prefix}"));
    let (name, optional) = (&object.name, optional(object.optional));
    Some(format!(
        "all keys of {kind} {name}{}{optional}",
        prefix.unwrap_or_default()
    ))
}

fn optional(is_optional: Option<bool>) -> &'static str {
    if is_optional == Some(true) { ", optional" } else { "" }
}

/// Returns what the health check of an application checks.
fn health_check(check: &HealthCheck, port: Option<i32>) -> String {
    let port = check.port.or(port).unwrap_or_default();
    let action = check.path.as_ref().map_or_else(
        || format!("TCP on port {port}"),
        |path| format!("GET {path} on port {port}"),
    );
    let settings = [
        ("timeout", check.timeout_seconds),
        ("period", check.period_seconds),
        ("startup", check.startup_seconds),
    ];
    let settings = settings
        .into_iter()
        .filter_map(|(name, seconds)| Some(format!("{name}={}s", seconds?)));
    with_settings(action, &settings.collect::<Vec<_>>())
}

/// Returns what a probe checks, and its settings as `kubectl describe` shows them.
fn checks(probe: &Probe) -> String {
    let port = probe.port().unwrap_or_default();
    let action = match (&probe.http_get, &probe.grpc, &probe.exec) {
        (Some(http), ..) => {
            let scheme = if http.scheme == Some(HttpScheme::Https) {
                " over HTTPS"
            } else {
                ""
            };
            let headers = http.http_headers.iter();
            let headers = headers.map(|header| format!(", {}: {}", header.name, header.value));
            let path = http.path.as_deref().unwrap_or("/");
            format!("GET {path} on port {port}{scheme}{}", headers.collect::<String>())
        }
        (_, Some(grpc), _) => match &grpc.service {
            Some(service) => format!("gRPC service {service} on port {port}"),
            None => format!("gRPC on port {port}"),
        },
        (_, _, Some(exec)) => format!("command {}", words(&exec.command)),
        _ => format!("TCP on port {port}"),
    };
    let seconds = |name: &str, value: Option<i64>| value.map(|value| format!("{name}={value}s"));
    let count = |name: &str, value: Option<i32>| value.map(|value| format!("#{name}={value}"));
    let settings = [
        seconds("delay", probe.initial_delay_seconds.map(i64::from)),
        seconds("timeout", probe.timeout_seconds.map(i64::from)),
        seconds("period", probe.period_seconds.map(i64::from)),
        count("success", probe.success_threshold),
        count("failure", probe.failure_threshold),
        seconds("grace-period", probe.termination_grace_period_seconds),
    ];
    with_settings(action, &settings.into_iter().flatten().collect::<Vec<_>>())
}

fn with_settings(action: String, settings: &[String]) -> String {
    if settings.is_empty() {
        return action;
    }
    format!("{action} ({})", settings.join(" "))
}
