//! Events of the kubelet, which explain why a health check fails or why a pod is not started.

use k8s_openapi::api::core::v1::Event;

use super::text::{last_line, root_cause};

/// Which Events of a pod are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTopic {
    /// Events about a failed health check.
    HealthCheck,
    /// Events about containers that are not started.
    Start,
}

/// Selects Events that explain a pod whose status does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// The UID of the pod.
    pub uid: Box<str>,
    /// The container whose health check failed. Empty for any.
    pub container: Box<str>,
    /// The topic of the Events.
    pub topic: EventTopic,
}

impl EventQuery {
    /// Returns the field selector of the Events.
    #[must_use]
    pub fn selector(&self) -> String {
        let of = match self.topic {
            EventTopic::HealthCheck => "reason=Unhealthy",
            EventTopic::Start => "type=Warning",
        };
        format!("involvedObject.uid={},{of}", self.uid)
    }

    /// Reads the newest of the Events that are about the topic.
    #[must_use]
    pub fn read(&self, events: &[Event]) -> Option<PodEvent> {
        let time = |event: &Event| {
            let last = event.last_timestamp.as_ref().map(|time| time.0);
            last.or_else(|| event.event_time.as_ref().map(|time| time.0))
        };
        let found = events.iter().filter(|event| self.is_of_container(event));
        let found = found.filter_map(|event| {
            let message = event.message.as_deref()?;
            let read = match self.topic {
                EventTopic::HealthCheck => PodEvent::of_probe(message),
                EventTopic::Start => PodEvent::of_start(event.reason.as_deref()?, message),
            };
            Some((time(event), read?))
        });
        found.max_by_key(|(time, _)| *time).map(|(_, event)| event)
    }

    /// Whether an Event is not about another container. Its field path is like `spec.initContainers{proxy}`.
    fn is_of_container(&self, event: &Event) -> bool {
        let path = event.involved_object.field_path.as_deref().unwrap_or_default();
        let name = path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}'));
        self.container.is_empty() || name.is_none_or(|name| *name == *self.container)
    }
}

/// What the kubelet reports in an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEvent {
    /// The health check got this HTTP status.
    HttpStatus(u16),
    /// The health check could not connect: nothing listens on the port.
    ConnectionRefused,
    /// The health check got no answer in time.
    Timeout,
    /// The health check failed for another reason, in the kubelet's words.
    CheckFailed(Box<str>),
    /// The pod was not started, for a reason in the kubelet's words.
    NotStarted(Box<str>),
}

impl PodEvent {
    /// Reads a message such as `Readiness probe failed: HTTP probe failed with statuscode: 503`. Returns `None` if it is not
    /// about a probe.
    #[must_use]
    pub fn of_probe(message: &str) -> Option<Self> {
        let (_, failure) = message.split_once(" probe failed: ")?;
        let contains = |phrases: &[&str]| phrases.iter().any(|phrase| failure.contains(phrase));
        let status = failure
            .rsplit_once("statuscode: ")
            .and_then(|(_, code)| code.trim().parse().ok());
        Some(match status {
            Some(code) => Self::HttpStatus(code),
            None if contains(&["connection refused"]) => Self::ConnectionRefused,
            None if contains(&["i/o timeout", "deadline exceeded", "Client.Timeout", "timed out"]) => Self::Timeout,
            None => Self::CheckFailed(last_line(reason(failure))?.into()),
        })
    }

    /// Reads an Event about a pod that was not started. Returns `None` if it is about something else.
    pub(super) fn of_start(reason: &str, message: &str) -> Option<Self> {
        let is_of_a_start = reason == "NetworkNotReady" || reason.starts_with("Failed") && reason != "FailedScheduling";
        is_of_a_start.then(|| Self::NotStarted(root_cause(message).into()))
    }

    /// Whether it is about a health check.
    #[must_use]
    pub const fn is_of_a_check(&self) -> bool {
        !matches!(self, Self::NotStarted(_))
    }
}

/// Returns the reason in the message of a failed probe: of a request the innermost error, of a command its output.
fn reason(failure: &str) -> &str {
    let is_request = ["Get \"", "dial "].iter().any(|start| failure.starts_with(start));
    failure.rsplit(": ").next().filter(|_| is_request).unwrap_or(failure)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn newest_event_about_the_topic_is_read() {
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
        let query = EventQuery {
            uid: "p1".into(),
            container: "app".into(),
            topic: EventTopic::HealthCheck,
        };
        assert_eq!(query.read(&events), Some(PodEvent::HttpStatus(503)));
        let of = |path: &str| {
            let mut event = event(4, "Readiness probe failed: HTTP probe failed with statuscode: 500");
            event.involved_object.field_path = Some(path.to_owned());
            query.read(&[events[0].clone(), event])
        };
        assert_eq!(of("spec.containers{app}"), Some(PodEvent::HttpStatus(500)));
        assert_eq!(of("spec.initContainers{proxy}"), Some(PodEvent::HttpStatus(503)));
        assert_eq!(query.read(&[]), None);
    }
}
