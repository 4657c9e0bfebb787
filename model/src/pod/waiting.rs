//! Why a container waits to be started.

use k8s_openapi::api::core::v1::{Container, ContainerStateWaiting};

use super::ContainerSpec;
use super::problem::PodProblem;
use super::start::{memory_limit, too_small};
use super::text::root_cause;
use crate::reason::Reason;

/// Returns why a container waits, or `None` if nothing is wrong. `image` is as in the spec: the kubelet and the container
/// runtime report other names of it.
pub(super) fn problem(waiting: &ContainerStateWaiting, image: &str, of: ContainerSpec<'_>) -> Option<PodProblem> {
    let spec = of.container;
    let message = waiting.message.as_deref().unwrap_or_default();
    let image = image_of_volume(message, image, of).unwrap_or(image);
    Some(match waiting.reason.as_deref()? {
        "" | "ContainerCreating" | "PodInitializing" | "CrashLoopBackOff" => return None,
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            if is_of_another_image(message, image) {
                return None;
            }
            pull_problem(image, message)
        }
        "InvalidImageName" => PodProblem::new(Reason::InvalidImageName, image),
        "ErrImageNeverPull" => PodProblem::new(Reason::ImageNotFound, image),
        "CreateContainerConfigError" => config_problem(message),
        "CreateContainerError" | "RunContainerError" | "StartError" => {
            unsupported_volume(message, of).unwrap_or_else(|| start_problem(message, spec))
        }
        // No spec of ours has such a hook, and its message holds the output of the hook.
        reason @ ("PostStartHookError" | "PreStopHookError") => PodProblem::new(Reason::ContainerFailed, reason),
        reason if message.is_empty() => PodProblem::new(Reason::ContainerFailed, reason),
        _ => PodProblem::new(Reason::ContainerFailed, root_cause(message)),
    })
}

/// Returns why a container could not be started: because the image lacks the command, or for another reason.
pub(super) fn start_problem(message: &str, spec: Option<&Container>) -> PodProblem {
    if let Some(problem) = too_small(message, memory_limit(spec)) {
        return problem;
    }
    let command = message.split("exec: \"").nth(1).and_then(|rest| rest.split('"').next());
    // A file that is missing may also be that of a mount.
    let is_missing = message.contains("executable file not found")
        || command.is_some() && message.contains("no such file or directory");
    let program = program_of_variables(spec);
    if !is_missing {
        let cause = || root_cause(message);
        return PodProblem::new(
            Reason::ContainerFailed,
            program.map_or_else(cause, |program| format!("{program} cannot be started")),
        );
    }
    PodProblem::new(Reason::CommandNotFound, program.or(command).unwrap_or(message))
}

/// Returns the program that a container starts, as in its spec, if it contains variables. Messages of the runtime contain
/// their values, which can be secret.
fn program_of_variables(spec: Option<&Container>) -> Option<&str> {
    let [command, args] = [&spec?.command, &spec?.args].map(|words| words.as_ref().and_then(|words| words.first()));
    command
        .or(args)
        .map(String::as_str)
        .filter(|program| program.contains("$("))
}

/// Whether the failed pull was of another image. After the image of a pod is changed in place, the kubelet reports
/// the failure of the old image until it syncs the pod.
fn is_of_another_image(message: &str, image: &str) -> bool {
    pulled(message).is_some_and(|pulled| canonical(pulled) != canonical(image))
}

/// Returns the image of a volume, as in the spec, if a message is about it. The kubelet pulls the images of the volumes that a
/// container mounts with that of the container.
fn image_of_volume<'a>(message: &str, image: &str, of: ContainerSpec<'a>) -> Option<&'a str> {
    let pulled = canonical(pulled(message)?);
    if pulled == canonical(image) {
        return None;
    }
    mounted_images(of).find(|reference| canonical(reference) == pulled)
}

/// Returns the images of the volumes that a container mounts, as in the spec.
fn mounted_images(of: ContainerSpec<'_>) -> impl Iterator<Item = &str> {
    let mounts = of
        .container
        .and_then(|spec| spec.volume_mounts.as_deref())
        .unwrap_or_default();
    let volumes = of.pod.and_then(|pod| pod.volumes.as_deref()).unwrap_or_default();
    let mounted = volumes
        .iter()
        .filter(|volume| mounts.iter().any(|mount| mount.name == volume.name));
    mounted.filter_map(|volume| volume.image.as_ref()?.reference.as_deref())
}

/// What container runtimes report for a mount of an image if they do not support it. They do not read the field with the image,
/// so the mount has no source: containerd before 2.1, CRI-O before 1.31, and Docker.
const WITHOUT_SOURCE: [&str; 3] = [
    "failed to mkdir \"\": mkdir : no such file or directory",
    "mount.HostPath is empty",
    "invalid volume specification: ':/",
];

/// Returns the problem of a container that mounts an image on a node whose container runtime does not support that.
fn unsupported_volume(message: &str, of: ContainerSpec<'_>) -> Option<PodProblem> {
    let is = mounted_images(of).next().is_some() && WITHOUT_SOURCE.iter().any(|phrase| message.contains(phrase));
    let node = of.pod.and_then(|pod| pod.node_name.as_deref());
    is.then(|| {
        let node = node.map_or_else(|| "the node".to_owned(), |name| format!("node {name}"));
        let detail = format!("the container runtime of {node} does not support image volumes");
        PodProblem::new(Reason::ImageVolumeUnsupported, detail)
    })
}

/// Returns the image that a message names.
fn pulled(message: &str) -> Option<&str> {
    message.split("image \"").nth(1).and_then(|rest| rest.split('"').next())
}

/// Returns name and tag of an image as container runtimes report them: without Docker Hub, and with the digest instead of the
/// tag if there is one.
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

/// Distinguishes failures that need a change of the spec from those that may pass.
fn pull_problem(image: &str, message: &str) -> PodProblem {
    let lower = message.to_lowercase();
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    let reason = if contains(&["unauthorized", "authorization", "denied", "forbidden", "no basic auth"]) {
        Reason::ImagePullDenied
    } else if contains(&["not found", "manifest unknown", "name unknown"]) {
        Reason::ImageNotFound
    } else {
        Reason::ImagePullFailed
    };
    // While the kubelet backs off it adds text to the error of the last pull. The error is the same in both states, and so
    // must be the cause.
    let error = message
        .rsplit_once("ErrImagePull: ")
        .map_or(message, |(_, error)| error);
    let last = error.rsplit(": ").next().unwrap_or(error);
    let detail = match reason {
        Reason::ImagePullDenied => format!("{image}: {error}"),
        Reason::ImagePullFailed if !error.starts_with("Back-off") => format!("{image}: {last}"),
        _ => image.to_owned(),
    };
    PodProblem::new(reason, detail)
}

fn config_problem(message: &str) -> PodProblem {
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
    PodProblem::new(reason, message)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn failed_pull_of_the_image_of_a_volume_is_reported_for_a_container_that_mounts_it() {
        let pod = json!({"volumes": [{"name": "assets", "image": {"reference": "acme/assets:1"}}, {"name": "tmp", "emptyDir": {}}],
            "containers": [{"name": "app", "image": "nginx:1", "volumeMounts": [{"name": "assets", "mountPath": "/assets"}]},
                {"name": "proxy", "image": "proxy:1", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}]});
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let error = "failed to pull and unpack image \"docker.io/acme/assets:1\": docker.io/acme/assets:1: not found";
        let of = |container: usize, reason: &str, message: &str| {
            let waiting = json!({"reason": reason, "message": message});
            let container = &pod.containers[container];
            let spec = ContainerSpec {
                pod: Some(&pod),
                container: Some(container),
            };
            let image = container.image.as_deref().unwrap();
            let found = problem(&serde_json::from_value(waiting).unwrap(), image, spec)?;
            Some((found.reason, found.detail))
        };
        let missing = Some((Reason::ImageNotFound, "acme/assets:1".to_owned()));
        let backoff = format!("Back-off pulling image \"acme/assets:1\": ErrImagePull: {error}");
        assert_eq!(of(0, "ErrImagePull", error), missing);
        assert_eq!(of(0, "ImagePullBackOff", &backoff), missing);
        let never = "Container image \"acme/assets:1\" is not present with pull policy of Never";
        assert_eq!(of(0, "ErrImageNeverPull", never), missing);
        assert_eq!(of(1, "ErrImagePull", error), None);
    }

    #[test]
    fn container_runtime_without_image_volumes_is_named_by_its_node() {
        let pod = json!({"nodeName": "n1", "volumes": [{"name": "assets", "image": {"reference": "acme/assets:1"}}],
            "containers": [{"name": "app", "volumeMounts": [{"name": "assets", "mountPath": "/assets"}]}, {"name": "proxy"}]});
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        // Recorded with containerd 2.0.14 on the real node.
        let containerd = "failed to generate container \"6c7adb95793d5e7f9b5b7cea5f9faec55a30123f989c16278982acc1e1961de4\" spec: \
                          failed to generate spec: failed to mkdir \"\": mkdir : no such file or directory";
        // As in the source of CRI-O 1.30, and as Docker reports a mount without a source.
        let others = [
            "mount.HostPath is empty",
            "Error response from daemon: invalid volume specification: ':/assets:ro'",
        ];
        let of = |pod: &PodSpec, container: usize, message: &str| {
            let waiting = json!({"reason": "CreateContainerError", "message": message});
            let spec = ContainerSpec {
                pod: Some(pod),
                container: Some(&pod.containers[container]),
            };
            problem(&serde_json::from_value(waiting).unwrap(), "nginx", spec).unwrap()
        };
        for message in others.into_iter().chain([containerd]) {
            let detail = "the container runtime of node n1 does not support image volumes";
            let expected = PodProblem::new(Reason::ImageVolumeUnsupported, detail);
            assert_eq!(of(&pod, 0, message), expected);
        }
        // It mounts no image.
        let detail = "failed to generate spec: failed to mkdir \"\": mkdir : no such file or directory";
        let other = PodProblem::new(Reason::ContainerFailed, detail);
        assert_eq!(of(&pod, 1, containerd), other);
        pod.node_name = None;
        let unnamed = "the container runtime of the node does not support image volumes";
        assert_eq!(of(&pod, 0, containerd).detail, unnamed);
    }

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
            let problem = |message| start_problem(message, Some(&container));
            assert_eq!(problem(missing), PodProblem::new(Reason::CommandNotFound, "$(TOKEN)"));
            assert_eq!(
                problem(denied),
                PodProblem::new(Reason::ContainerFailed, "$(TOKEN) cannot be started")
            );
        }
        assert_eq!(start_problem(missing, None).detail, "s3cret");
    }

    #[test]
    fn output_of_hooks_is_hidden() {
        let waiting = ContainerStateWaiting {
            reason: Some("PostStartHookError".into()),
            message: Some("Exec lifecycle hook failed, message: \"s3cret\"".into()),
        };
        let expected = PodProblem::new(Reason::ContainerFailed, "PostStartHookError");
        assert_eq!(problem(&waiting, "nginx", ContainerSpec::default()), Some(expected));
    }
}
