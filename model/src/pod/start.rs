//! Why the kubelet does not start a pod: its sandbox, a volume or the network fails.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};

use super::event::PodEvent;
use super::problem::PodProblem;
use crate::quantity;
use crate::reason::Reason;

/// A pod that the kubelet has accepted and whose sandbox does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstarted {
    /// When the kubelet accepted it, in seconds since 1970.
    pub since: i64,
    /// The memory limit of its container.
    pub memory: Option<Box<str>>,
}

impl Unstarted {
    /// Reads the status of a pod and of its container. Returns `None` once the sandbox exists.
    pub(super) fn read(status: &PodStatus, own: Option<&ContainerStatus>, spec: Option<&Container>) -> Option<Self> {
        let since = status.start_time.as_ref()?.0.as_second();
        let mut conditions = status.conditions.iter().flatten();
        let has_sandbox = conditions.any(|c| c.type_ == "PodReadyToStartContainers" && c.status == "True");
        let waiting = own.and_then(|own| own.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        let waits = matches!(waiting, Some("ContainerCreating" | "PodInitializing"));
        (waits && !has_sandbox).then(|| Self {
            since,
            memory: memory_limit(spec).map(Into::into),
        })
    }

    /// Returns why it was not started, from an Event of the kubelet.
    pub(super) fn problem(&self, event: &PodEvent) -> Option<PodProblem> {
        let PodEvent::NotStarted(message) = event else {
            return None;
        };
        let known = too_small(message, self.memory.as_deref()).or_else(|| failed_mount(message));
        Some(known.unwrap_or_else(|| PodProblem::new(Reason::ContainerFailed, &**message)))
    }
}

/// Reads the message about a volume whose Secret, ConfigMap or key is missing, such as `MountVolume.SetUp failed for volume
/// "config" : configmap "shop" not found`.
fn failed_mount(message: &str) -> Option<PodProblem> {
    let (_, rest) = message.split_once("MountVolume.SetUp failed for volume \"")?;
    let (volume, why) = rest.split_once("\" : ")?;
    let missing = |kind: &str| why.starts_with(&format!("{kind} \"")) && why.ends_with("\" not found");
    let key = ["config key: ", "secret key: "];
    let key = key
        .iter()
        .find_map(|words| Some(why.split_once(&format!("references non-existent {words}"))?.1));
    Some(match key {
        _ if missing("configmap") => PodProblem::new(Reason::MissingConfigMap, why),
        _ if missing("secret") => PodProblem::new(Reason::MissingSecret, why),
        Some(key) => PodProblem::new(
            Reason::MissingKey,
            format!("couldn't find key {key} in volume {volume}"),
        ),
        None => return None,
    })
}

/// Returns the memory limit of a container.
pub(super) fn memory_limit(spec: Option<&Container>) -> Option<&str> {
    let limits = spec?.resources.as_ref()?.limits.as_ref()?;
    limits.get("memory").map(|amount| amount.0.as_str())
}

/// Returns the problem of a container that was not started because of its memory limit. `None` if the reason is another one.
pub(super) fn too_small(message: &str, limit: Option<&str>) -> Option<PodProblem> {
    let limit = limit?;
    let phrases = ["memory limit too low", "unable to set memory limit", "set memory limit"];
    let is = quantity::is_tiny_memory(limit) || phrases.iter().any(|phrase| message.contains(phrase));
    is.then(|| PodProblem::new(Reason::MemoryLimitTooSmall, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of containerd.
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

    fn problem(reason: &str, message: &str, limit: Option<&str>) -> (Reason, String) {
        let unstarted = Unstarted {
            since: 0,
            memory: limit.map(Into::into),
        };
        let problem = unstarted
            .problem(&PodEvent::of_start(reason, message).unwrap())
            .unwrap();
        (problem.reason, problem.detail)
    }

    #[test]
    fn memory_limit_that_is_too_small_differs_from_other_sandbox_failures() {
        let sandbox = |message, limit| problem("FailedCreatePodSandBox", message, limit);
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
        let volume = "MountVolume.SetUp failed for volume \"v\" : hostPath type check failed: /x is not a directory";
        assert_eq!(
            problem("FailedMount", volume, None),
            (Reason::ContainerFailed, volume.into())
        );
    }

    #[test]
    fn missing_source_of_a_volume_is_named() {
        for (why, reason, detail) in [
            (
                r#"secret "nope" not found"#,
                Reason::MissingSecret,
                r#"secret "nope" not found"#,
            ),
            (
                r#"configmap "nope" not found"#,
                Reason::MissingConfigMap,
                r#"configmap "nope" not found"#,
            ),
            (
                "configmap references non-existent config key: nginx.conf",
                Reason::MissingKey,
                "couldn't find key nginx.conf in volume v",
            ),
            (
                "references non-existent secret key: tls.key",
                Reason::MissingKey,
                "couldn't find key tls.key in volume v",
            ),
        ] {
            let message = format!("MountVolume.SetUp failed for volume \"v\" : {why}");
            assert_eq!(problem("FailedMount", &message, None), (reason, detail.to_owned()));
        }
    }

    #[test]
    fn events_about_something_else_are_ignored() {
        for reason in ["FailedScheduling", "BackOff", "DNSConfigForming", "Unhealthy"] {
            assert_eq!(PodEvent::of_start(reason, "whatever"), None, "{reason}");
        }
    }
}
