//! Why the kubelet does not get to start a pod: its sandbox, a volume or the network fails.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};

use super::last_words::last_words;
use super::probe::Answer;
use super::{Trouble, end};
use crate::diagnose::Reason;
use crate::quantity;

/// A pod that the kubelet has accepted, and whose sandbox does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstarted {
    /// When the kubelet accepted it, in seconds since 1970.
    pub since: i64,
    /// The memory limit of its container.
    pub memory: Option<Box<str>>,
}

impl Unstarted {
    /// Reads it from the status of a pod and of its container. `None` once there is a sandbox.
    pub(super) fn read(status: &PodStatus, own: Option<&ContainerStatus>, spec: Option<&Container>) -> Option<Self> {
        let since = status.start_time.as_ref()?.0.as_second();
        let mut conditions = status.conditions.iter().flatten();
        let has_sandbox = conditions.any(|c| c.type_ == "PodReadyToStartContainers" && c.status == "True");
        let waiting = own.and_then(|own| own.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        let waits = matches!(waiting, Some("ContainerCreating" | "PodInitializing"));
        (waits && !has_sandbox).then(|| Self {
            since,
            memory: end::memory_limit(spec).map(Into::into),
        })
    }

    /// Returns why it was not started, as the kubelet's Events say it.
    pub(super) fn trouble(&self, answer: &Answer) -> Option<Trouble> {
        let Answer::NotStarted(message) = answer else {
            return None;
        };
        let small = too_small(message, self.memory.as_deref());
        Some(small.unwrap_or_else(|| Trouble::new(Reason::ContainerFailed, &**message)))
    }
}

/// Reads an Event of the kubelet about a pod that it did not start. `None` if the Event is about something else.
pub(super) fn read(reason: &str, message: &str) -> Option<Answer> {
    let is_of_a_start = reason == "NetworkNotReady" || reason.starts_with("Failed") && reason != "FailedScheduling";
    is_of_a_start.then(|| Answer::NotStarted(words(message).into()))
}

/// Returns what a message says without the calls that it went through and the identifiers that differ with each attempt.
pub(super) fn words(message: &str) -> String {
    let calls = ["unable to start container process: ", "desc = "];
    let inner = calls
        .iter()
        .find_map(|call| message.rsplit_once(call))
        .map_or(message, |(_, inner)| inner);
    let known: Vec<&str> = inner.split(": ").filter(|part| !has_identifier(part)).collect();
    let known = known.join(": ");
    last_words(&known).unwrap_or_else(|| last_words(inner).unwrap_or_default())
}

/// Whether there is a word as containers and temporary folders are called.
fn has_identifier(part: &str) -> bool {
    let hex = |word: &str| word.len() >= 32 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(hex)
}

/// Returns the trouble of a container that was not started for its memory limit. `None` if it was something else.
pub(super) fn too_small(message: &str, limit: Option<&str>) -> Option<Trouble> {
    let limit = limit?;
    let says = ["memory limit too low", "unable to set memory limit", "set memory limit"];
    let is = quantity::is_tiny_memory(limit) || says.iter().any(|words| message.contains(words));
    is.then(|| Trouble::new(Reason::MemoryLimitTooSmall, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// containerd's own words.
    const SANDBOX: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox \
        \"34605cf5c833277bf80e0f42471648924971fcc7194e7440d8d6ba2cfe6b724b\": failed to create containerd task: failed to create \
        shim task: OCI runtime create failed: runc create failed: unable to start container process: container init was \
        OOM-killed (memory limit too low?)";
    const STOPPED: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox \
        \"4b59f883342f2062b09d56f8a480b1f80c84cfe60fdf65793393c1fa0cbf94e0\": failed to start sandbox container task \
        \"4b59f883342f2062b09d56f8a480b1f80c84cfe60fdf65793393c1fa0cbf94e0\": OCI runtime start failed: cannot start a container \
        that has stopped";
    const NETWORK: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
        \"4b59f883342f2062b09d56f8a480b1f80c84cfe60fdf65793393c1fa0cbf94e0\": plugin type=\"calico\" failed (add): error getting \
        ClusterInformation: connection is unauthorized: Unauthorized";

    fn told(reason: &str, message: &str, limit: Option<&str>) -> (Reason, String) {
        let unstarted = Unstarted {
            since: 0,
            memory: limit.map(Into::into),
        };
        let trouble = unstarted.trouble(&read(reason, message).unwrap()).unwrap();
        (trouble.reason, trouble.detail)
    }

    #[test]
    fn sandbox_failures_are_told_from_a_memory_limit_that_is_too_small() {
        let sandbox = |message, limit| told("FailedCreatePodSandBox", message, limit);
        assert_eq!(
            sandbox(SANDBOX, Some("8Mi")),
            (Reason::MemoryLimitTooSmall, "8Mi".into())
        );
        assert_eq!(
            sandbox(STOPPED, Some("2Mi")),
            (Reason::MemoryLimitTooSmall, "2Mi".into())
        );
        let stopped = "OCI runtime start failed: cannot start a container that has stopped";
        assert_eq!(sandbox(STOPPED, Some("1Gi")), (Reason::ContainerFailed, stopped.into()));
        assert_eq!(sandbox(STOPPED, None), (Reason::ContainerFailed, stopped.into()));
        let network = "plugin type=\"calico\" failed (add): error getting ClusterInformation: connection is unauthorized: \
                       Unauthorized";
        assert_eq!(sandbox(NETWORK, None), (Reason::ContainerFailed, network.into()));
        let volume = "MountVolume.SetUp failed for volume \"v\" : secret \"nope\" not found";
        assert_eq!(
            told("FailedMount", volume, None),
            (Reason::ContainerFailed, volume.into())
        );
    }

    #[test]
    fn events_about_something_else_are_no_answer() {
        for reason in ["FailedScheduling", "BackOff", "DNSConfigForming", "Unhealthy"] {
            assert_eq!(read(reason, "whatever"), None, "{reason}");
        }
    }
}
