//! The health check of a container, and how it failed.

use std::fmt;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::event::PodEvent;
use super::output::Readable;

/// What a probe of the kubelet checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// An HTTP GET request.
    Get {
        /// The path.
        path: Box<str>,
        /// The port, by number or name.
        port: Box<str>,
        /// The timeout in seconds.
        timeout: i32,
    },
    /// A TCP connection.
    Connect {
        /// The port, by number or name.
        port: Box<str>,
        /// The timeout in seconds.
        timeout: i32,
    },
    /// Anything else, which the operator does not render.
    Other,
}

/// A health check that did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCheck {
    /// The check.
    pub check: Check,
    /// What the kubelet reports about it, if that is known.
    pub event: Option<PodEvent>,
    /// What the container can read.
    pub readable: Readable,
}

impl FailedCheck {
    /// Returns the same without text that the container may have written: the output of a command, or a part of a response.
    #[must_use]
    pub fn without_output(&self) -> Self {
        let event = self.event.clone();
        Self {
            event: event.filter(|event| !matches!(event, PodEvent::CheckFailed(_))),
            ..self.clone()
        }
    }
}

impl Check {
    pub(super) fn of(probe: &Probe) -> Self {
        let port = |port: &IntOrString| match port {
            IntOrString::Int(number) => number.to_string().into(),
            IntOrString::String(name) => name.as_str().into(),
        };
        let timeout = probe.timeout_seconds.unwrap_or(1);
        match (&probe.http_get, &probe.tcp_socket) {
            (Some(get), _) => Self::Get {
                path: get.path.as_deref().unwrap_or("/").into(),
                port: port(&get.port),
                timeout,
            },
            (_, Some(socket)) => Self::Connect {
                port: port(&socket.port),
                timeout,
            },
            _ => Self::Other,
        }
    }

    /// Returns the port, by number or name.
    #[must_use]
    pub fn port(&self) -> Option<&str> {
        match self {
            Self::Get { port, .. } | Self::Connect { port, .. } => Some(port),
            Self::Other => None,
        }
    }
}

/// Formats the end of a sentence that begins with "the pods run, but".
impl fmt::Display for FailedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.check, &self.event) {
            (Check::Get { port, .. } | Check::Connect { port, .. }, Some(PodEvent::ConnectionRefused)) => {
                write!(f, "nothing listens on port {port}")
            }
            (Check::Get { path, port, timeout }, event) => {
                write!(f, "GET {path} on port {port} ")?;
                match event {
                    Some(PodEvent::HttpStatus(code)) => write!(f, "answers with status {code}"),
                    Some(PodEvent::Timeout) => write!(f, "has no answer within {timeout} s"),
                    Some(PodEvent::CheckFailed(why)) => write!(f, "fails: {why}"),
                    _ => f.write_str("does not answer with a status from 200 to 399"),
                }
            }
            (Check::Connect { port, timeout }, event) => match event {
                Some(PodEvent::Timeout) => write!(f, "port {port} accepts no connection within {timeout} s"),
                Some(PodEvent::CheckFailed(why)) => write!(f, "connections to port {port} fail: {why}"),
                _ => write!(f, "nothing accepts connections on port {port}"),
            },
            (Check::Other, Some(PodEvent::CheckFailed(why))) => write!(f, "the health check fails: {why}"),
            (Check::Other, _) => f.write_str("the health check fails"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::PodProblem;

    #[test]
    fn events_of_probes_become_sentences() {
        let get = json!({"httpGet": {"path": "/healthz", "port": 8080}, "timeoutSeconds": 2});
        let connect = json!({"tcpSocket": {"port": 8080}});
        let exec = json!({"exec": {"command": ["true"]}});
        let refused = "dial tcp 10.0.0.1:8080: connect: connection refused";
        let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        let (mut shown, mut hidden) = (Vec::new(), Vec::new());
        for (probe, message) in [
            (&get, "HTTP probe failed with statuscode: 503"),
            (&get, &format!("Get \"http://10.0.0.1:8080/healthz\": {refused}")),
            (&get, &format!("Get \"http://10.0.0.1:8080/healthz\": {late}")),
            (&get, "Get \"http://10.0.0.1:8080/healthz\": EOF"),
            (
                &get,
                "Get \"http://10.0.0.1:8080/healthz\": net/http: HTTP/1.x transport connection broken: malformed HTTP response \"the secret\"",
            ),
            (&connect, refused),
            (&connect, "dial tcp 10.0.0.1:8080: i/o timeout"),
            (&connect, "dial tcp 10.0.0.1:8080: connect: no route to host"),
            (&exec, "cat: can't open '/ready'\n"),
        ] {
            let probe: Probe = serde_json::from_value(probe.clone()).unwrap();
            let event = PodEvent::of_probe(&format!("Readiness probe failed: {message}"));
            assert!(event.is_some(), "{message}");
            let check = Check::of(&probe);
            let failed = FailedCheck {
                check,
                event,
                readable: Readable::of(None, None),
            };
            let problem = PodProblem::unhealthy(failed.clone());
            // The container can read anything, so nothing that it wrote is shown.
            if problem.detail_for(None) != failed.to_string() {
                hidden.push(problem.detail_for(None).into_owned());
            }
            shown.push(problem.with_output().detail);
        }
        insta::assert_snapshot!(hidden.join("\n"), @r"
        GET /healthz on port 8080 does not answer with a status from 200 to 399
        GET /healthz on port 8080 does not answer with a status from 200 to 399
        nothing accepts connections on port 8080
        the health check fails
        ");
        insta::assert_snapshot!(shown.join("\n"), @r#"
        GET /healthz on port 8080 answers with status 503
        nothing listens on port 8080
        GET /healthz on port 8080 has no answer within 2 s
        GET /healthz on port 8080 fails: EOF
        GET /healthz on port 8080 fails: malformed HTTP response "the secret"
        nothing listens on port 8080
        port 8080 accepts no connection within 1 s
        connections to port 8080 fail: no route to host
        the health check fails: cat: can't open '/ready'
        "#);
        assert_eq!(PodEvent::of_probe("Stopping container app"), None);
    }
}
