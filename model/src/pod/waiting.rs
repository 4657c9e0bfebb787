//! Why a container waits to be started.

use k8s_openapi::api::core::v1::{Container, ContainerStateWaiting};

use super::{Trouble, end, start};
use crate::diagnose::Reason;

/// Returns why a container waits, unless it is only its turn. `image` is as the person wrote it: the kubelet and the
/// container runtime each spell it out in their own way.
pub(super) fn trouble(waiting: &ContainerStateWaiting, image: &str, spec: Option<&Container>) -> Option<Trouble> {
    let message = waiting.message.as_deref().unwrap_or_default();
    Some(match waiting.reason.as_deref()? {
        "" | "ContainerCreating" | "PodInitializing" | "CrashLoopBackOff" => return None,
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            if is_of_another_image(message, image) {
                return None;
            }
            pull_trouble(image, message)
        }
        "InvalidImageName" => Trouble::new(Reason::InvalidImageName, image),
        "ErrImageNeverPull" => Trouble::new(Reason::ImageNotFound, image),
        "CreateContainerConfigError" => config_trouble(message),
        "CreateContainerError" | "RunContainerError" | "StartError" => start_trouble(message, spec),
        // No spec of ours has such a hook, and its message holds the output of the hook.
        reason @ ("PostStartHookError" | "PreStopHookError") => Trouble::new(Reason::ContainerFailed, reason),
        reason if message.is_empty() => Trouble::new(Reason::ContainerFailed, reason),
        _ => Trouble::new(Reason::ContainerFailed, start::words(message)),
    })
}

/// Distinguishes a command that the image lacks from everything else that keeps a container from being started.
pub(super) fn start_trouble(message: &str, spec: Option<&Container>) -> Trouble {
    if let Some(trouble) = start::too_small(message, end::memory_limit(spec)) {
        return trouble;
    }
    let missing = ["executable file not found", "no such file or directory"];
    let is_missing = missing.iter().any(|words| message.contains(words));
    let program = program_of_variables(spec);
    if !is_missing {
        let words = || start::words(message);
        return Trouble::new(
            Reason::ContainerFailed,
            program.map_or_else(words, |program| format!("{program} cannot be started")),
        );
    }
    let command = message.split("exec: \"").nth(1).and_then(|rest| rest.split('"').next());
    Trouble::new(Reason::CommandNotFound, program.or(command).unwrap_or(message))
}

/// Returns the program that a container starts, as its spec has it, if variables are part of it. In messages of the
/// runtime their values are filled in, and a value can be secret.
fn program_of_variables(spec: Option<&Container>) -> Option<&str> {
    let [command, args] = [&spec?.command, &spec?.args].map(|words| words.as_ref().and_then(|words| words.first()));
    command
        .or(args)
        .map(String::as_str)
        .filter(|program| program.contains("$("))
}

/// Whether a pull failed of another image than this one. After the image of a pod is changed in place, the kubelet reports
/// the failure of the old image until it syncs the pod.
fn is_of_another_image(message: &str, image: &str) -> bool {
    let pulled = message.split("image \"").nth(1).and_then(|rest| rest.split('"').next());
    pulled.is_some_and(|pulled| canonical(pulled) != canonical(image))
}

/// Returns an image as container runtimes spell it out: without Docker Hub, with a tag, or with a digest only.
fn canonical(image: &str) -> (&str, &str) {
    let image = image.strip_prefix("docker.io/").unwrap_or(image);
    let image = image.strip_prefix("library/").unwrap_or(image);
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let (name, tag) = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (name, "latest"),
    };
    (name, if digest.is_empty() { tag } else { digest })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_variables_in_a_program_are_hidden() {
        let missing = "exec: \"s3cret\": executable file not found in $PATH";
        let denied = "unable to start container process: exec: \"s3cret\": permission denied";
        for fields in [json!({"command": ["$(TOKEN)", "x"]}), json!({"args": ["$(TOKEN)"]})] {
            let mut container = json!({"name": "app"});
            container
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            let container: Container = serde_json::from_value(container).unwrap();
            let trouble = |message| start_trouble(message, Some(&container));
            assert_eq!(trouble(missing), Trouble::new(Reason::CommandNotFound, "$(TOKEN)"));
            assert_eq!(
                trouble(denied),
                Trouble::new(Reason::ContainerFailed, "$(TOKEN) cannot be started")
            );
        }
        assert_eq!(start_trouble(missing, None).detail, "s3cret");
    }

    #[test]
    fn output_of_hooks_is_hidden() {
        let waiting = ContainerStateWaiting {
            reason: Some("PostStartHookError".into()),
            message: Some("Exec lifecycle hook failed, message: \"s3cret\"".into()),
        };
        let expected = Trouble::new(Reason::ContainerFailed, "PostStartHookError");
        assert_eq!(trouble(&waiting, "nginx", None), Some(expected));
    }
}
