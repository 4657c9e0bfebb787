//! Reads a health check from the probes of a container.

use crd::HealthCheck;
use serde_json::Value;

use super::{number, port_of};
use crate::spec_reader::{ReadSpec, UnmappedField};

/// What a probe checks.
#[derive(Clone, Debug, PartialEq)]
struct Handler {
    path: Option<String>,
    port: i32,
}

/// Reads the probes of a container that listens on `port`. The container must have the defaults of the API server.
///
/// Periods and timeouts are read as precisely as a health check can express them. Probes that check something else are
/// unmapped.
pub fn read(container: &Value, port: Option<i32>) -> ReadSpec<Option<HealthCheck>> {
    let probes = ["readinessProbe", "livenessProbe", "startupProbe"];
    let checks = probes.map(|probe| handler(&container[probe], container));
    let Some(main) = checks.iter().flatten().next() else {
        let unmapped = probes.iter().filter_map(|probe| whole(container, probe)).collect();
        return ReadSpec { value: None, unmapped };
    };
    let mut unmapped = Vec::new();
    for (probe, checks) in probes.iter().zip(&checks) {
        match checks {
            Some(checks) if checks == main => {}
            None => unmapped.extend(whole(container, probe)),
            Some(checks) => unmapped.push(other(probe, checks, &container[*probe])),
        }
    }
    let is_there = |probe: &str| container[probe].is_object();
    let listens = main.path.is_none() && Some(main.port) == port;
    if listens && !is_there("livenessProbe") && !is_there("startupProbe") {
        return ReadSpec { value: None, unmapped };
    }
    let [readiness, ..] = probes;
    let of = |field: &str| {
        let probe = probes.iter().find(|probe| container[**probe].is_object());
        number(&container[*probe.unwrap_or(&readiness)][field])
    };
    let within = |field: &str, usual: i32, most: i32| {
        let value = of(field).map(|value| value.clamp(1, most));
        value.filter(|value| *value != usual)
    };
    let check = HealthCheck {
        path: main.path.clone(),
        port: Some(main.port).filter(|checks| Some(*checks) != port),
        period_seconds: within("periodSeconds", 10, 3600),
        timeout_seconds: within("timeoutSeconds", 1, 300),
        startup_seconds: startup(container),
    };
    ReadSpec {
        value: Some(check),
        unmapped,
    }
}

/// Returns how long a container may take to start, in seconds, unless it is the default.
fn startup(container: &Value) -> Option<i32> {
    const DEFAULT: i32 = 60;
    let lasts = |probe: &Value| {
        let of = |field: &str| number(&probe[field]).unwrap_or(0);
        of("initialDelaySeconds") + of("periodSeconds") * of("failureThreshold")
    };
    let seconds = match (&container["startupProbe"], &container["livenessProbe"]) {
        (probe @ Value::Object(_), _) => lasts(probe),
        // A container must not be restarted earlier than before.
        (_, probe @ Value::Object(_)) => lasts(probe).max(DEFAULT),
        // Without a liveness probe, a container was never restarted. It is not ready before its first check.
        _ => lasts(&container["readinessProbe"]).max(DEFAULT),
    };
    Some(seconds.clamp(1, 3600)).filter(|seconds| *seconds != DEFAULT)
}

/// Returns what a probe checks, if a health check can express it.
fn handler(probe: &Value, container: &Value) -> Option<Handler> {
    let (http, tcp) = (&probe["httpGet"], &probe["tcpSocket"]);
    if let Some(http) = http.as_object() {
        let plain = http
            .keys()
            .all(|key| ["path", "port", "scheme"].contains(&key.as_str()));
        let path = http.get("path").and_then(Value::as_str).unwrap_or("/");
        let path = format!("/{}", path.strip_prefix('/').unwrap_or(path));
        let is_http = http.get("scheme").is_none_or(|scheme| scheme == "HTTP");
        return Some(Handler {
            path: Some(path),
            port: port_of(http.get("port")?, container)?,
        })
        .filter(|_| plain && is_http);
    }
    let tcp = tcp.as_object()?;
    let port = port_of(tcp.get("port")?, container)?;
    Some(Handler { path: None, port }).filter(|_| tcp.len() == 1)
}

fn whole(container: &Value, probe: &str) -> Option<UnmappedField> {
    container
        .get(probe)
        .filter(|probe| probe.is_object())
        .map(|value| UnmappedField {
            path: probe.to_owned(),
            value: value.clone(),
            differs: true,
        })
}

/// Returns the field of a probe that checks something else than the health check.
fn other(probe: &str, checks: &Handler, value: &Value) -> UnmappedField {
    let (path, value) = match checks.path {
        Some(_) => ("httpGet", &value["httpGet"]),
        None => ("tcpSocket", &value["tcpSocket"]),
    };
    UnmappedField {
        path: format!("{probe}.{path}"),
        value: value.clone(),
        differs: true,
    }
}
