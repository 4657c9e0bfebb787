//! Renders the probes of a container.

use crd::{ContainerFields, HealthCheck, HttpScheme};
use k8s_openapi::api::core::v1::{ExecAction, GRPCAction, HTTPGetAction, HTTPHeader, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::some_list;

/// The period of a startup probe, in seconds. Short, so that an application that starts fast is ready soon.
const STARTUP_PERIOD: i32 = 2;

/// The probes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Probes {
    pub readiness: Option<Probe>,
    pub liveness: Option<Probe>,
    pub startup: Option<Probe>,
}

/// Renders the probes of a container.
pub(crate) fn probes(fields: &ContainerFields) -> Probes {
    let listening = || fields.port.map(listening);
    if let Some(probes) = &fields.probes {
        let written = as_written(probes);
        return Probes {
            readiness: written.readiness.or_else(listening),
            ..written
        };
    }
    let check = fields.health_check.as_ref();
    match check.and_then(|check| Check::of(check, fields.port)) {
        Some(check) => Probes {
            readiness: Some(check.steady(3)),
            // Slower than readiness: an application under load should lose its traffic before it is restarted.
            liveness: Some(check.steady(6)),
            startup: Some(check.startup()),
        },
        None => Probes {
            readiness: listening(),
            ..Probes::default()
        },
    }
}

/// Renders probes without a default.
pub(crate) fn as_written(probes: &crd::Probes) -> Probes {
    Probes {
        readiness: probes.readiness.as_ref().map(probe),
        liveness: probes.liveness.as_ref().map(probe),
        startup: probes.startup.as_ref().map(probe),
    }
}

fn probe(probe: &crd::Probe) -> Probe {
    Probe {
        http_get: probe.http_get.as_ref().map(|http| HTTPGetAction {
            path: http.path.clone(),
            port: IntOrString::Int(http.port),
            scheme: http.scheme.map(|scheme| match scheme {
                HttpScheme::Http => "HTTP".into(),
                HttpScheme::Https => "HTTPS".into(),
            }),
            http_headers: some_list(&http.http_headers, |header| HTTPHeader {
                name: header.name.clone(),
                value: header.value.clone(),
            }),
            host: None,
        }),
        tcp_socket: probe.tcp_socket.as_ref().map(|tcp| tcp_socket(tcp.port)),
        grpc: probe.grpc.as_ref().map(|grpc| GRPCAction {
            port: grpc.port,
            service: grpc.service.clone(),
        }),
        exec: probe.exec.as_ref().map(|exec| ExecAction {
            command: Some(exec.command.clone()),
        }),
        // An API server does not store 0.
        initial_delay_seconds: probe.initial_delay_seconds.filter(|seconds| *seconds != 0),
        period_seconds: probe.period_seconds,
        timeout_seconds: probe.timeout_seconds,
        success_threshold: probe.success_threshold,
        failure_threshold: probe.failure_threshold,
        termination_grace_period_seconds: probe.termination_grace_period_seconds,
    }
}

const fn tcp_socket(port: i32) -> TCPSocketAction {
    TCPSocketAction {
        host: None,
        port: IntOrString::Int(port),
    }
}

/// Returns the readiness probe of an application with a port and without a health check: it must listen on the port.
/// Otherwise it would get traffic before it listens.
fn listening(port: i32) -> Probe {
    Probe {
        tcp_socket: Some(tcp_socket(port)),
        period_seconds: Some(STARTUP_PERIOD),
        timeout_seconds: Some(1),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

/// A health check with its defaults.
struct Check<'a> {
    path: Option<&'a str>,
    port: i32,
    period: i32,
    timeout: i32,
    startup: i32,
}

impl<'a> Check<'a> {
    fn of(check: &'a HealthCheck, port: Option<i32>) -> Option<Self> {
        Some(Self {
            path: check.path.as_deref(),
            port: check.port.or(port)?,
            period: check.period_seconds.unwrap_or(10),
            timeout: check.timeout_seconds.unwrap_or(1),
            startup: check.startup_seconds.unwrap_or(60),
        })
    }

    fn startup(&self) -> Probe {
        self.probe(
            STARTUP_PERIOD,
            self.startup.div_euclid(STARTUP_PERIOD) + self.startup.rem_euclid(STARTUP_PERIOD),
        )
    }

    fn steady(&self, failures: i32) -> Probe {
        self.probe(self.period, failures)
    }

    fn probe(&self, period: i32, failures: i32) -> Probe {
        Probe {
            http_get: self.path.map(|path| HTTPGetAction {
                path: Some(path.to_owned()),
                port: IntOrString::Int(self.port),
                scheme: Some("HTTP".into()),
                ..HTTPGetAction::default()
            }),
            tcp_socket: self.path.is_none().then(|| tcp_socket(self.port)),
            period_seconds: Some(period),
            timeout_seconds: Some(self.timeout),
            failure_threshold: Some(failures),
            ..Probe::default()
        }
    }
}
