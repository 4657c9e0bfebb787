//! What a pod says about itself, reduced to what explains an application.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};

use crate::diagnose::Reason;

/// A pod of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// It is ready.
    pub ready: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// What keeps it from working.
    pub trouble: Option<Trouble>,
}

/// What keeps a pod from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble.
    pub reason: Reason,
    /// The part of the kubelet's or scheduler's own words that says which image, key or amount.
    pub detail: String,
}

impl PodState {
    /// Reads a live pod.
    #[must_use]
    pub fn read(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let condition = |type_: &str| status?.conditions.as_ref()?.iter().find(|c| c.type_ == type_);
        let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
        let finished = matches!(phase, "Succeeded" | "Failed");
        let ready = !finished && condition("Ready").is_some_and(|c| c.status == "True");
        let unschedulable = condition("PodScheduled")
            .filter(|c| c.status == "False")
            .map(|c| Trouble {
                reason: Reason::Unschedulable,
                detail: c.message.clone().unwrap_or_default(),
            });
        let container = || {
            let container = status?.container_statuses.as_ref()?.first()?;
            trouble(container)
        };
        let evicted = || {
            (phase == "Failed").then(|| Trouble {
                reason: if status.and_then(|s| s.reason.as_deref()) == Some("Evicted") {
                    Reason::Evicted
                } else {
                    Reason::ContainerFailed
                },
                detail: status.and_then(|s| s.message.clone()).unwrap_or_default(),
            })
        };
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            ready,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            trouble: if ready {
                None
            } else {
                unschedulable.or_else(evicted).or_else(container)
            },
        }
    }
}

fn trouble(status: &ContainerStatus) -> Option<Trouble> {
    let state = status.state.as_ref();
    if let Some(waiting) = state.and_then(|s| s.waiting.as_ref()) {
        let message = waiting.message.as_deref().unwrap_or_default();
        match waiting.reason.as_deref().unwrap_or_default() {
            "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
                return Some(pull_trouble(&status.image, message));
            }
            "InvalidImageName" => return some(Reason::InvalidImageName, &status.image),
            "ErrImageNeverPull" => return some(Reason::ImageNotFound, &status.image),
            "CreateContainerConfigError" => return Some(config_trouble(message)),
            "CreateContainerError" | "RunContainerError" | "StartError" | "PostStartHookError" => {
                return some(Reason::ContainerFailed, message);
            }
            _ => {}
        }
    }
    // A container that crashes is waiting, running and terminated in turn. What it died of stays in its last
    // state, so that the cause does not flicker.
    let died = state
        .and_then(|s| s.terminated.as_ref())
        .or_else(|| last_end(status.last_state.as_ref()))?;
    if died.reason.as_deref() == Some("OOMKilled") {
        return some(Reason::OutOfMemory, "");
    }
    if died.reason.as_deref() == Some("StartError") || died.reason.as_deref() == Some("ContainerCannotRun") {
        return some(Reason::ContainerFailed, died.message.as_deref().unwrap_or_default());
    }
    some(Reason::CrashLoop, &format!("exit code {}", died.exit_code))
}

fn last_end(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state?.terminated.as_ref()
}

#[expect(clippy::unnecessary_wraps, reason = "each caller returns an option")]
fn some(reason: Reason, detail: &str) -> Option<Trouble> {
    Some(Trouble {
        reason,
        detail: detail.to_owned(),
    })
}

/// Tells apart what a person has to change from what passes by itself.
fn pull_trouble(image: &str, message: &str) -> Trouble {
    let lower = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let reason = if says(&["unauthorized", "authorization", "denied", "forbidden", "no basic auth"]) {
        Reason::ImagePullDenied
    } else if says(&["not found", "manifest unknown", "name unknown"]) {
        Reason::ImageNotFound
    } else {
        Reason::ImagePullFailed
    };
    // While the kubelet waits it wraps the error of the last pull in words of its own; the error itself is
    // the same in both states, and so must the cause be.
    let error = message
        .rsplit_once("ErrImagePull: ")
        .map_or(message, |(_, error)| error);
    // The name first as the person wrote it; what the status has may be shortened to an id.
    let image = quoted(message).unwrap_or(image);
    let detail = match reason {
        Reason::ImagePullFailed => format!("{image}: {}", error.rsplit(": ").next().unwrap_or(error)),
        _ => image.to_owned(),
    };
    Trouble {
        reason,
        detail: if detail.starts_with("Back-off") {
            image.to_owned()
        } else {
            detail
        },
    }
}

fn quoted(text: &str) -> Option<&str> {
    let start = text.find('"')? + 1;
    let end = text[start..].find('"')? + start;
    let name = &text[start..end];
    // The kubelet quotes what the person wrote, containerd the name spelled out: both name the image.
    Some(name.strip_prefix("docker.io/library/").unwrap_or(name))
}

fn config_trouble(message: &str) -> Trouble {
    let lower = message.to_lowercase();
    let reason = if lower.contains("couldn't find key") {
        Reason::MissingKey
    } else if lower.starts_with("secret ") {
        Reason::MissingSecret
    } else if lower.starts_with("configmap ") {
        Reason::MissingConfigMap
    } else if lower.contains("runasnonroot") {
        Reason::RunsAsRoot
    } else {
        Reason::ContainerFailed
    };
    Trouble {
        reason,
        detail: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(status: Value) -> Option<(Reason, String)> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": status})).unwrap();
        PodState::read(&pod)
            .trouble
            .map(|trouble| (trouble.reason, trouble.detail))
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "app", "image": "nginx:nope", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn an_image_that_is_not_there_is_one_cause_while_pulling_and_while_waiting() {
        let error = "failed to pull and unpack image \"docker.io/library/nginx:nope\": failed to resolve reference \
                     \"docker.io/library/nginx:nope\": docker.io/library/nginx:nope: not found";
        let pulling = read(waiting("ErrImagePull", error));
        let backing_off = read(waiting(
            "ImagePullBackOff",
            &format!("Back-off pulling image \"nginx:nope\": ErrImagePull: {error}"),
        ));
        assert_eq!(pulling, Some((Reason::ImageNotFound, "nginx:nope".into())));
        assert_eq!(pulling, backing_off);
    }

    #[test]
    fn a_registry_that_cannot_be_reached_may_come_back() {
        let error = "failed to do request: Head \"https://registry.example/v2/app/manifests/1\": dial tcp 10.0.0.1:443: i/o timeout";
        assert_eq!(read(waiting("ErrImagePull", error)).unwrap().0, Reason::ImagePullFailed);
    }

    #[test]
    fn a_wrong_password_is_told_from_a_missing_image() {
        let error = "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized";
        assert_eq!(read(waiting("ErrImagePull", error)).unwrap().0, Reason::ImagePullDenied);
    }

    #[test]
    fn what_is_missing_of_the_environment_is_named() {
        for (message, reason) in [
            ("secret \"db\" not found", Reason::MissingSecret),
            ("configmap \"look\" not found", Reason::MissingConfigMap),
            ("couldn't find key password in Secret default/db", Reason::MissingKey),
            (
                "container has runAsNonRoot and image will run as root (pod: \"a\", container: app)",
                Reason::RunsAsRoot,
            ),
        ] {
            assert_eq!(
                read(waiting("CreateContainerConfigError", message)),
                Some((reason, message.into()))
            );
        }
    }

    #[test]
    fn a_crash_is_one_cause_in_each_of_its_states() {
        let died = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        for state in [
            died.clone(),
            json!({"running": {}}),
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}),
        ] {
            let pod = json!({"phase": "Running", "containerStatuses": [{
                "name": "app", "image": "busybox", "imageID": "", "ready": false, "restartCount": 2, "state": state, "lastState": died}]});
            assert_eq!(read(pod), Some((Reason::CrashLoop, "exit code 3".into())));
        }
    }

    #[test]
    fn no_room_is_told_in_the_schedulers_words() {
        let pod = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient memory."}]});
        assert_eq!(
            read(pod),
            Some((
                Reason::Unschedulable,
                "0/1 nodes are available: 1 Insufficient memory.".into()
            ))
        );
    }

    #[test]
    fn a_ready_pod_has_no_trouble() {
        let pod = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
            "name": "app", "image": "busybox", "imageID": "", "ready": true, "restartCount": 1, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1}}}]});
        assert_eq!(read(pod), None);
    }
}
