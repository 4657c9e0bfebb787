//! The health check that a container's probes stand for.

use crd::HealthCheck;
use serde_json::Value;

use super::{number, port_of};
use crate::inverse::{Inverse, Left};

/// What is asked of a container.
#[derive(Clone, Debug, PartialEq)]
struct Handler {
    path: Option<String>,
    port: i32,
}

/// Reads the probes of a container that listens on `port`, defaults spelled out.
///
/// How often and how patiently is asked is taken as closely as one health check can have it. Another question than the
/// one that is taken is left over.
pub fn read(container: &Value, port: Option<i32>) -> Inverse<Option<HealthCheck>> {
    let probes = ["readinessProbe", "livenessProbe", "startupProbe"];
    let asked = probes.map(|probe| handler(&container[probe], container));
    let Some(main) = asked.iter().flatten().next() else {
        let left = probes.iter().filter_map(|probe| whole(container, probe)).collect();
        return Inverse { said: None, left };
    };
    let mut left = Vec::new();
    for (probe, asked) in probes.iter().zip(&asked) {
        match asked {
            Some(asked) if asked == main => {}
            None => left.extend(whole(container, probe)),
            Some(asked) => left.push(other(probe, asked, &container[*probe])),
        }
    }
    let is_there = |probe: &str| container[probe].is_object();
    let listens = main.path.is_none() && Some(main.port) == port;
    if listens && !is_there("livenessProbe") && !is_there("startupProbe") {
        return Inverse { said: None, left };
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
    let said = HealthCheck {
        path: main.path.clone(),
        port: Some(main.port).filter(|asked| Some(*asked) != port),
        period_seconds: within("periodSeconds", 10, 3600),
        timeout_seconds: within("timeoutSeconds", 1, 300),
        startup_seconds: startup(container),
    };
    Inverse { said: Some(said), left }
}

/// How long a container may take to start, in seconds, where that is not what happens by itself.
fn startup(container: &Value) -> Option<i32> {
    const USUAL: i32 = 60;
    let lasts = |probe: &Value| {
        let of = |field: &str| number(&probe[field]).unwrap_or(0);
        of("initialDelaySeconds") + of("periodSeconds") * of("failureThreshold")
    };
    let seconds = match (&container["startupProbe"], &container["livenessProbe"]) {
        (probe @ Value::Object(_), _) => lasts(probe),
        // Nobody is killed sooner than before.
        (_, probe @ Value::Object(_)) => lasts(probe).max(USUAL),
        // Nobody was killed at all. What is not asked for so long is not ready by then.
        _ => lasts(&container["readinessProbe"]).max(USUAL),
    };
    Some(seconds.clamp(1, 3600)).filter(|seconds| *seconds != USUAL)
}

/// Returns what a probe asks, if a health check can ask it.
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

fn whole(container: &Value, probe: &str) -> Option<Left> {
    container
        .get(probe)
        .filter(|probe| probe.is_object())
        .map(|value| Left {
            path: probe.to_owned(),
            value: value.clone(),
            differs: true,
        })
}

/// Says where a probe asks something else than the one that is taken.
fn other(probe: &str, asked: &Handler, value: &Value) -> Left {
    let (path, value) = match asked.path {
        Some(_) => ("httpGet", &value["httpGet"]),
        None => ("tcpSocket", &value["tcpSocket"]),
    };
    Left {
        path: format!("{probe}.{path}"),
        value: value.clone(),
        differs: true,
    }
}
