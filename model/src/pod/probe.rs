//! What the kubelet asks of a container, and what it gets for an answer.

use std::fmt;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::last_words::last_words;
use super::output::Readable;

/// What is asked of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// A page.
    Get {
        /// Its path.
        path: Box<str>,
        /// The port, by number or name.
        port: Box<str>,
        /// How long the answer may take, in seconds.
        timeout: i32,
    },
    /// A connection.
    Connect {
        /// The port, by number or name.
        port: Box<str>,
        /// How long it may take, in seconds.
        timeout: i32,
    },
    /// Something that is not of our making.
    Other,
}

/// What the kubelet reports in an Event: why a check did not pass (reason `Unhealthy`), or why a pod was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A page with this HTTP status.
    Status(u16),
    /// Nothing listens there.
    Refused,
    /// None in time.
    None,
    /// Something else, in the kubelet's words.
    Other(Box<str>),
    /// The pod was not started, in the kubelet's words.
    NotStarted(Box<str>),
}

/// A check that did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What was asked.
    pub check: Check,
    /// The answer, if it is known.
    pub answer: Option<Answer>,
    /// What the container can read.
    pub readable: Readable,
}

impl Failed {
    /// Returns the same without text that the container may have written: of a command what it printed, of a request the
    /// part of the answer that could not be read.
    #[must_use]
    pub fn without_output(&self) -> Self {
        let answer = self.answer.clone();
        Self {
            answer: answer.filter(|answer| !matches!(answer, Answer::Other(_))),
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

    /// Returns the port that is asked.
    #[must_use]
    pub fn port(&self) -> Option<&str> {
        match self {
            Self::Get { port, .. } | Self::Connect { port, .. } => Some(port),
            Self::Other => None,
        }
    }
}

impl Answer {
    /// Reads the message of such an Event, as `Readiness probe failed: HTTP probe failed with statuscode: 503`. `None` if
    /// it is not about a probe.
    #[must_use]
    pub fn read(message: &str) -> Option<Self> {
        let (_, said) = message.split_once(" probe failed: ")?;
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let status = said
            .rsplit_once("statuscode: ")
            .and_then(|(_, code)| code.trim().parse().ok());
        Some(match status {
            Some(code) => Self::Status(code),
            None if says(&["connection refused"]) => Self::Refused,
            None if says(&["i/o timeout", "deadline exceeded", "Client.Timeout", "timed out"]) => Self::None,
            None => Self::Other(last_words(why(said))?.into()),
        })
    }

    /// Whether it is the answer to a check.
    #[must_use]
    pub const fn is_of_a_check(&self) -> bool {
        !matches!(self, Self::NotStarted(_))
    }
}

/// Of a request that failed, what happened; of a command, what it wrote.
fn why(said: &str) -> &str {
    let is_request = ["Get \"", "dial "].iter().any(|start| said.starts_with(start));
    said.rsplit(": ").next().filter(|_| is_request).unwrap_or(said)
}

/// As the end of a sentence that begins with "the pods run, but".
impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.check, &self.answer) {
            (Check::Get { port, .. } | Check::Connect { port, .. }, Some(Answer::Refused)) => {
                write!(f, "nothing listens on port {port}")
            }
            (Check::Get { path, port, timeout }, answer) => {
                write!(f, "GET {path} on port {port} ")?;
                match answer {
                    Some(Answer::Status(code)) => write!(f, "answers with status {code}"),
                    Some(Answer::None) => write!(f, "has no answer within {timeout} s"),
                    Some(Answer::Other(why)) => write!(f, "fails: {why}"),
                    _ => f.write_str("does not answer with a status from 200 to 399"),
                }
            }
            (Check::Connect { port, timeout }, answer) => match answer {
                Some(Answer::None) => write!(f, "port {port} accepts no connection within {timeout} s"),
                Some(Answer::Other(why)) => write!(f, "connections to port {port} fail: {why}"),
                _ => write!(f, "nothing accepts connections on port {port}"),
            },
            (Check::Other, Some(Answer::Other(why))) => write!(f, "the health check fails: {why}"),
            (Check::Other, _) => f.write_str("the health check fails"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::{Question, Topic, Trouble};
    use k8s_openapi::api::core::v1::Event;

    #[test]
    fn the_answer_of_a_probe_is_told() {
        let get = json!({"httpGet": {"path": "/healthz", "port": 8080}, "timeoutSeconds": 2});
        let connect = json!({"tcpSocket": {"port": 8080}});
        let exec = json!({"exec": {"command": ["true"]}});
        let refused = "dial tcp 10.0.0.1:8080: connect: connection refused";
        let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        let (mut told, mut hidden) = (Vec::new(), Vec::new());
        for (probe, said) in [
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
            let answer = Answer::read(&format!("Readiness probe failed: {said}"));
            assert!(answer.is_some(), "{said}");
            let check = Check::of(&probe);
            let failed = Failed {
                check,
                answer,
                readable: Readable::of(None, None),
            };
            let trouble = Trouble::unhealthy(failed.clone());
            // Of a container that can read anything, nothing that it wrote.
            if trouble.detail_for(None) != failed.to_string() {
                hidden.push(trouble.detail_for(None).into_owned());
            }
            told.push(trouble.disclosed().detail);
        }
        insta::assert_snapshot!(hidden.join("\n"), @r"
        GET /healthz on port 8080 does not answer with a status from 200 to 399
        GET /healthz on port 8080 does not answer with a status from 200 to 399
        nothing accepts connections on port 8080
        the health check fails
        ");
        insta::assert_snapshot!(told.join("\n"), @r#"
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
        assert_eq!(Answer::read("Stopping container app"), None);
    }

    #[test]
    fn the_newest_answer_counts() {
        let event = |second: u8, message: &str| -> Event {
            let event = json!({"metadata": {}, "involvedObject": {}, "message": message,
                "lastTimestamp": format!("2026-01-01T00:00:0{second}Z")});
            serde_json::from_value(event).unwrap()
        };
        let events = [
            event(2, "Readiness probe failed: HTTP probe failed with statuscode: 503"),
            event(
                1,
                "Startup probe failed: dial tcp 10.0.0.1:80: connect: connection refused",
            ),
            event(3, "something else"),
        ];
        let question = Question {
            uid: "p1".into(),
            topic: Topic::Check,
        };
        assert_eq!(question.read(&events), Some(Answer::Status(503)));
        assert_eq!(question.read(&[]), None);
    }
}
