//! Reads a health check or probes from the probes of a container.

use crd::{ContainerFields, HealthCheck, HttpScheme, Probe, Probes};
use serde_json::{Value, json};

use super::{number, port_of};
use crate::defaults;
use crate::desired::probes::probes;
use crate::fields::is_nothing;
use crate::spec_reader::{ReadSpec, UnmappedField, rest};

/// The fields of a container with its probes.
const NAMES: [&str; 3] = ["readinessProbe", "livenessProbe", "startupProbe"];

/// What the spec of a container says about its health.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// The short form.
    pub check: Option<HealthCheck>,
    /// The probes, if the short form can't express them.
    pub probes: Option<Box<Probes>>,
}

/// Reads the probes of a container that listens on `port`. The container must have the defaults of the API server.
pub fn read(container: &Value, port: Option<i32>) -> ReadSpec<Health> {
    let live = NAMES.map(|name| normalized(&container[name], container));
    let mut short = [Some(Health::default()), short(&live, port)].into_iter().flatten();
    let same = |health: &Health| {
        rendered(health, port)
            .iter()
            .zip(&live)
            .all(|(ours, live)| is_same(ours, live))
    };
    if let Some(value) = short.find(same) {
        return ReadSpec {
            value,
            unmapped: Vec::new(),
        };
    }
    as_written(&live, port)
}

/// Reads the probes of a sidecar, which has no health check.
pub fn read_probes(container: &Value) -> ReadSpec<Option<Box<Probes>>> {
    let live = NAMES.map(|name| normalized(&container[name], container));
    let ReadSpec { value, unmapped } = as_written(&live, None);
    ReadSpec {
        value: value.probes,
        unmapped,
    }
}

/// Reads each probe.
fn as_written(live: &[Value; 3], port: Option<i32>) -> ReadSpec<Health> {
    let [mut readiness, liveness, startup] = live.each_ref().map(probe);
    if is_same(&rendered(&Health::default(), port)[0], &live[0]) {
        readiness = None;
    }
    let read = Probes {
        readiness,
        liveness,
        startup,
    };
    let value = Health {
        check: None,
        probes: (read != Probes::default()).then(|| Box::new(read)),
    };
    let ours = rendered(&value, port);
    let mut unmapped = Vec::new();
    for ((name, live), ours) in NAMES.iter().zip(live).zip(&ours) {
        if live.is_null() || probe(live).is_some() {
            unmapped.extend(rest::of(name, live, ours));
        } else {
            unmapped.push(UnmappedField {
                path: (*name).to_owned(),
                value: live.clone(),
                differs: true,
            });
        }
    }
    ReadSpec { value, unmapped }
}

/// Returns the probes that the operator renders, in the order of [`NAMES`].
fn rendered(health: &Health, port: Option<i32>) -> [Value; 3] {
    let ours = probes(&ContainerFields {
        port,
        health_check: health.check.clone(),
        probes: health.probes.clone(),
        ..ContainerFields::default()
    });
    // A typed object always serialises: its keys are text.
    [ours.readiness, ours.liveness, ours.startup].map(|probe| {
        let mut probe = json!(probe);
        defaults::probe(&mut probe);
        probe
    })
}

/// Whether two probes are the same, without the values that the API server does not store.
fn is_same(one: &Value, other: &Value) -> bool {
    one.is_null() == other.is_null() && rest::of("", one, other).is_empty() && rest::of("", other, one).is_empty()
}

/// Returns a probe with ports by number, and with a path that begins with `/`.
fn normalized(probe: &Value, container: &Value) -> Value {
    let mut probe = probe.clone();
    for handler in ["httpGet", "tcpSocket"] {
        let Some(handler) = probe.get_mut(handler).filter(|handler| handler.is_object()) else {
            continue;
        };
        if let Some(port) = port_of(&handler["port"], container) {
            handler["port"] = port.into();
        }
        if let Some(path) = handler.get("path").and_then(Value::as_str) {
            handler["path"] = format!("/{}", path.strip_prefix('/').unwrap_or(path)).into();
        }
    }
    probe
}

/// Returns the health check from which probes with this readiness probe may be rendered.
fn short([readiness, _, startup]: &[Value; 3], port: Option<i32>) -> Option<Health> {
    let (http, tcp) = (&readiness["httpGet"], &readiness["tcpSocket"]);
    let checks = number(&http["port"]).or_else(|| number(&tcp["port"]))?;
    let other_than = |value: Option<i32>, usual: i32| value.filter(|value| *value != usual);
    let check = HealthCheck {
        path: http["path"].as_str().map(str::to_owned),
        port: Some(checks).filter(|checks| Some(*checks) != port),
        period_seconds: other_than(number(&readiness["periodSeconds"]), 10),
        timeout_seconds: other_than(number(&readiness["timeoutSeconds"]), 1),
        startup_seconds: other_than(
            number(&startup["failureThreshold"])?.checked_mul(number(&startup["periodSeconds"])?),
            60,
        ),
    };
    let is_valid = check.period_seconds.is_none_or(|seconds| seconds <= 3600)
        && check.timeout_seconds.is_none_or(|seconds| seconds <= 300)
        && check.startup_seconds.is_none_or(|seconds| seconds <= 3600)
        && check.path.as_deref().is_none_or(is_path);
    is_valid.then_some(Health {
        check: Some(check),
        probes: None,
    })
}

/// Reads a probe, without fields that have their default. Returns `None` if a spec can't express what it checks.
fn probe(live: &Value) -> Option<Probe> {
    let mut written = live.clone();
    for handler in ["httpGet", "grpc"] {
        if let Some(handler) = written.get_mut(handler).and_then(Value::as_object_mut) {
            handler.retain(|_, value| !is_nothing(value));
        }
    }
    let mut probe: Probe = serde_json::from_value(written).ok()?;
    if let Some(http) = &mut probe.http_get {
        http.path = http.path.take().filter(|path| path != "/");
        http.scheme = http.scheme.filter(|scheme| *scheme != HttpScheme::Http);
    }
    for (field, usual) in [
        (&mut probe.initial_delay_seconds, 0),
        (&mut probe.period_seconds, 10),
        (&mut probe.timeout_seconds, 1),
        (&mut probe.success_threshold, 1),
        (&mut probe.failure_threshold, 3),
    ] {
        *field = field.filter(|value| *value != usual);
    }
    let has_path = |probe: &Probe| {
        let path = probe.http_get.as_ref().and_then(|http| http.path.as_deref());
        path.is_none_or(is_path)
    };
    let checks = [
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
        probe.grpc.is_some(),
        probe.exec.as_ref().is_some_and(|exec| !exec.command.is_empty()),
    ];
    Some(probe).filter(|probe| has_path(probe) && checks.contains(&true))
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}
