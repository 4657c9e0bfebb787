//! Why a container waits to be started.

use k8s_openapi::api::core::v1::{Container, ContainerStateWaiting};

use super::{Trouble, end, start};
use crate::diagnose::Reason;

/// Returns why a container waits, unless it is only its turn. `image` is as the person wrote it: the kubelet and the
/// container runtime each spell it out in their own way.
pub(super) fn trouble(waiting: &ContainerStateWaiting, image: &str, spec: Option<&Container>) -> Option<Trouble> {
    let message = waiting.message.as_deref().unwrap_or_default();
    let limit = end::memory_limit(spec);
    Some(match waiting.reason.as_deref()? {
        "" | "ContainerCreating" | "PodInitializing" | "CrashLoopBackOff" => return None,
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            pull_trouble(image, message)
        }
        "InvalidImageName" => Trouble::new(Reason::InvalidImageName, image),
        "ErrImageNeverPull" => Trouble::new(Reason::ImageNotFound, image),
        "CreateContainerConfigError" => config_trouble(message),
        "CreateContainerError" | "RunContainerError" | "StartError" => start_trouble(message, limit),
        reason if message.is_empty() => Trouble::new(Reason::ContainerFailed, reason),
        _ => Trouble::new(Reason::ContainerFailed, start::words(message)),
    })
}

/// Tells a command that is not there from all else that keeps a container from being started. `limit` is its memory limit.
pub(super) fn start_trouble(message: &str, limit: Option<&str>) -> Trouble {
    if let Some(trouble) = start::too_small(message, limit) {
        return trouble;
    }
    let missing = ["executable file not found", "no such file or directory"];
    if !missing.iter().any(|words| message.contains(words)) {
        return Trouble::new(Reason::ContainerFailed, start::words(message));
    }
    let command = message.split("exec: \"").nth(1).and_then(|rest| rest.split('"').next());
    Trouble::new(Reason::CommandNotFound, command.unwrap_or(message))
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
    let last = error.rsplit(": ").next().unwrap_or(error);
    let detail = match reason {
        Reason::ImagePullDenied => format!("{image}: {error}"),
        Reason::ImagePullFailed if !error.starts_with("Back-off") => format!("{image}: {last}"),
        _ => image.to_owned(),
    };
    Trouble::new(reason, detail)
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
    Trouble::new(reason, message)
}
