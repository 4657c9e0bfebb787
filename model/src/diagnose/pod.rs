//! Describes what keeps a pod from working.

use std::collections::BTreeSet;

use crd::Volume;
use serde_json::json;

use super::{Diagnosis, Reason, Subject, describe_pods, diagnosis, edit, logs, pull, schedule, set, set_resources};
use crate::pod::{PodEvent, PodProblem};
use crate::quantity;
use crate::queue::config_map_name;
use crate::{NextCommand, command};

/// Returns the diagnosis if the missing ConfigMap is that of a queue in the spec.
fn queue_not_ready(subject: Subject<'_>, config_map: &str) -> Option<Diagnosis> {
    let queues = &subject.pod?.queues;
    let queue = queues.iter().find(|queue| config_map_name(&queue.name) == config_map)?;
    let name = &queue.name;
    let message = format!("the pods wait for queue {name}, which does not exist or is not ready");
    let next = command!("kubectl appdeploy queue status {} -n {}", name, subject.namespace);
    Some(diagnosis(Reason::QueueNotReady, &message, Some(next)))
}

/// Returns the diagnosis for the container of the application, whether or not waiting helps.
pub(super) fn explain(subject: Subject<'_>, problem: &PodProblem) -> Diagnosis {
    let shown = problem.detail_for(subject.pod);
    let (reason, detail) = (problem.reason, &*shown);
    let namespace = subject.namespace;
    if reason == Reason::MissingConfigMap
        && let Some(found) = queue_not_ready(subject, quoted(detail))
    {
        return found;
    }
    let (message, next) = match reason {
        Reason::ImageNotFound => (
            format!("image {detail} was not found"),
            Some(set(subject, "image", "IMAGE")),
        ),
        Reason::InvalidImageName => (
            format!("{detail} is not the name of an image"),
            Some(set(subject, "image", "IMAGE")),
        ),
        Reason::ImagePullDenied => return pull::denied(subject, detail),
        Reason::ImagePullFailed => (
            format!("the image can't be pulled: {detail}"),
            Some(describe_pods(subject)),
        ),
        Reason::Unschedulable => return schedule::unschedulable(subject, detail),
        Reason::MissingSecret => (
            format!("Secret {} does not exist", quoted(detail)),
            Some(
                command!("kubectl create secret generic {} -n {}", quoted(detail), namespace)
                    .and(literals(subject, problem)),
            ),
        ),
        Reason::MissingConfigMap => (
            format!("ConfigMap {} does not exist", quoted(detail)),
            Some(
                command!("kubectl create configmap {} -n {}", quoted(detail), namespace)
                    .and(literals(subject, problem)),
            ),
        ),
        Reason::MissingKey => missing_key(subject, detail),
        Reason::RunsAsRoot => (
            "the image runs as root, which securityProfile Restricted forbids".to_owned(),
            Some(edit(subject)),
        ),
        Reason::NotHealthy => (
            format!("the pods run, but {detail}"),
            Some(after_failed_check(subject, problem)),
        ),
        Reason::CommandNotFound => (format!("the image has no {detail} to run"), Some(edit(subject))),
        Reason::CrashLoop => (
            format!("the application ends by itself, with {detail}"),
            Some(logs(subject)),
        ),
        Reason::MemoryLimitTooSmall => (
            format!(
                "resources.limits.memory is {}, too little to start a container",
                quantity::with_unit(detail)
            ),
            Some(set_resources(
                subject,
                command!("--limits=memory={}", quantity::meant_memory(detail)),
            )),
        ),
        Reason::OutOfMemory => (
            out_of_memory("the application", detail),
            Some(raise_limit(subject, detail)),
        ),
        Reason::ImageVolumeUnsupported => (
            format!("{detail}: upgrade it to containerd 2.1 or CRI-O 1.31, or use another volume"),
            Some(edit(subject)),
        ),
        Reason::Evicted => (
            format!("the node evicted a pod: {detail}"),
            Some("kubectl describe nodes".into()),
        ),
        _ if is_user_namespace(subject, detail) => (
            format!(
                "the node can't run the pods in a user namespace (hostUsers: false): {}",
                without_field(detail)
            ),
            Some(edit(subject)),
        ),
        _ => (
            format!("a container does not start: {detail}"),
            Some(describe_pods(subject)),
        ),
    };
    diagnosis(reason, &message, next)
}

/// Whether a message of the kubelet is about the user namespace that the spec asks for.
fn is_user_namespace(subject: Subject<'_>, detail: &str) -> bool {
    let asks = subject.pod.is_some_and(|pod| pod.host_users == Some(false));
    let phrases = ["user namespace", "userns", "idmap", "ID mapping", "id mapping"];
    asks && phrases.iter().any(|phrase| detail.contains(phrase))
}

/// Returns a message of the kubelet without its beginning that names the field.
fn without_field(detail: &str) -> &str {
    let field = "can't set `spec.hostUsers: false`, ";
    detail.split_once(field).map_or(detail, |(_, why)| why)
}

/// Reads a message of the kubelet such as `couldn't find key password in Secret default/db`, or `… in volume config`.
fn missing_key(subject: Subject<'_>, detail: &str) -> (String, Option<NextCommand>) {
    let words: Vec<&str> = detail.split_whitespace().collect();
    let (Some(key), Some(kind), Some(object)) = (words.get(3), words.get(5), words.get(6)) else {
        return (detail.to_owned(), None);
    };
    let object = object.rsplit('/').next().unwrap_or(object);
    let volume = || subject.pod?.volumes.iter().find(|volume| volume.name == object);
    let (kind, object) = match volume().filter(|_| *kind == "volume") {
        Some(Volume {
            secret: Some(secret), ..
        }) => (&"Secret", &*secret.secret_name),
        Some(Volume {
            config_map: Some(map), ..
        }) => (&"ConfigMap", &*map.name),
        _ if *kind == "volume" => return (format!("volume {object} has no key {key}"), Some(edit(subject))),
        _ => (kind, object),
    };
    let (resource, data) = if *kind == "Secret" {
        ("secret", "stringData")
    } else {
        ("configmap", "data")
    };
    let patch = json!({data: {*key: "VALUE"}});
    (
        format!("{kind} {object} has no key {key}"),
        Some(command!(
            "kubectl patch {} {} -n {} --type merge -p {}",
            resource,
            object,
            subject.namespace,
            patch
        )),
    )
}

/// Returns the flags that create the keys to which the spec refers in the missing object: as values, or as files if a volume
/// mounts it.
fn literals(subject: Subject<'_>, problem: &PodProblem) -> NextCommand {
    let variables = subject.pod.iter().flat_map(|pod| {
        let others = pod.other_containers().flat_map(|(_, container)| &container.env);
        pod.container.env.iter().chain(others)
    });
    let sources = variables.filter_map(|var| var.value_from.as_ref());
    let refs = sources.flat_map(|source| match problem.reason {
        Reason::MissingSecret => source.secret_key_ref.iter(),
        _ => source.config_map_key_ref.iter(),
    });
    let name = quoted(&problem.detail);
    if let Some(files) = files(subject, problem.reason, name) {
        return files;
    }
    let mut keys: BTreeSet<&str> = refs
        .filter(|key| key.name == name)
        .map(|key| key.key.as_str())
        .collect();
    if keys.is_empty() {
        keys.insert("KEY");
    }
    keys.into_iter().fold(NextCommand::default(), |flags, key| {
        flags.and(command!("--from-literal={}=VALUE", key))
    })
}

/// Returns the flags that create the files of a volume with the missing object. `None` if no volume mounts it.
fn files(subject: Subject<'_>, reason: Reason, name: &str) -> Option<NextCommand> {
    let volumes = || subject.pod.iter().flat_map(|pod| &pod.volumes);
    let items = if reason == Reason::MissingSecret {
        let mut secrets = volumes().filter_map(|volume| volume.secret.as_ref());
        &secrets.find(|secret| secret.secret_name == name)?.items
    } else {
        let mut maps = volumes().filter_map(|volume| volume.config_map.as_ref());
        &maps.find(|map| map.name == name)?.items
    };
    if items.is_empty() {
        return Some("--from-file=FILE".into());
    }
    let flags = items.iter().map(|item| command!("--from-file={}=FILE", item.key));
    Some(flags.fold(NextCommand::default(), NextCommand::and))
}

/// Describes a container that was killed because of its memory.
pub(super) fn out_of_memory(container: &str, limit: &str) -> String {
    if limit.is_empty() {
        return format!("{container} used more memory than its node had left");
    }
    format!("{container} used more memory than resources.limits.memory allows, which is {limit}")
}

/// Suggests twice the memory limit.
fn raise_limit(subject: Subject<'_>, limit: &str) -> NextCommand {
    match doubled(limit) {
        Some(more) => set_resources(subject, command!("--limits=memory={}", more)),
        None => edit(subject),
    }
}

fn doubled(amount: &str) -> Option<String> {
    let end = amount.find(|c: char| !c.is_ascii_digit()).unwrap_or(amount.len());
    let (number, unit) = amount.split_at(end);
    let twice = number.parse::<u64>().ok()?.checked_mul(2)?;
    // A fraction can't be doubled by its integer part.
    (!unit.starts_with('.')).then(|| format!("{twice}{unit}"))
}

/// Suggests a command after a failed health check. If nothing listens, the port is probably wrong; if the application
/// answers, the reason is in its log.
fn after_failed_check(subject: Subject<'_>, problem: &PodProblem) -> NextCommand {
    let Some(failed) = &problem.failed_check else {
        return describe_pods(subject);
    };
    let port = subject
        .pod
        .and_then(|pod| pod.container.port)
        .map(|port| port.to_string());
    match &failed.event {
        Some(PodEvent::ConnectionRefused) if port.as_deref() == failed.check.port() => set(subject, "port", "PORT"),
        Some(PodEvent::ConnectionRefused) => edit(subject),
        Some(PodEvent::HttpStatus(_) | PodEvent::Timeout) => logs(subject),
        Some(PodEvent::CheckFailed(_) | PodEvent::NotStarted(_)) | None => describe_pods(subject),
    }
}

/// Returns the name in quotation marks in a message of the kubelet.
fn quoted(detail: &str) -> &str {
    detail.split('"').nth(1).unwrap_or("NAME")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::diagnose_pod;

    #[test]
    fn missing_source_of_a_volume_has_the_command_that_creates_it() {
        let pod = json!({"image": "nginx", "volumes": [
            {"name": "config", "mountPath": "/a", "configMap": {"name": "web", "items": [{"key": "nginx.conf", "path": "a"}]}},
            {"name": "keys", "mountPath": "/b", "secret": {"secretName": "tls"}}]});
        let pod = serde_json::from_value(pod).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let of = |reason, detail: &str| {
            let found = diagnose_pod(subject, &PodProblem::new(reason, detail));
            format!("{}\n{}", found.message, found.next.unwrap())
        };
        let found = [
            of(Reason::MissingConfigMap, "configmap \"web\" not found"),
            of(Reason::MissingSecret, "secret \"tls\" not found"),
            of(Reason::MissingKey, "couldn't find key nginx.conf in volume config"),
            of(Reason::MissingKey, "couldn't find key tls.key in volume keys"),
        ];
        insta::assert_snapshot!(found.join("\n"), @r#"
        ConfigMap web does not exist
        kubectl create configmap web -n blue --from-file=nginx.conf=FILE
        Secret tls does not exist
        kubectl create secret generic tls -n blue --from-file=FILE
        ConfigMap web has no key nginx.conf
        kubectl patch configmap web -n blue --type merge -p '{"data":{"nginx.conf":"VALUE"}}'
        Secret tls has no key tls.key
        kubectl patch secret tls -n blue --type merge -p '{"stringData":{"tls.key":"VALUE"}}'
        "#);
    }

    #[test]
    fn user_namespace_that_a_node_does_not_support_is_named() {
        let kubelet =
            "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces";
        let runc = "failed to create containerd task: idmap mounts are not supported by the kernel";
        let of = |spec: serde_json::Value, why: &str| {
            let pod = serde_json::from_value(spec).unwrap();
            let subject = Subject {
                pod: Some(&pod),
                ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
            };
            let found = diagnose_pod(subject, &PodProblem::new(Reason::ContainerFailed, why));
            format!("{}\n{}", found.message, found.next.unwrap())
        };
        let isolated = json!({"image": "nginx", "hostUsers": false});
        let found = [kubelet, runc].map(|why| of(isolated.clone(), why));
        insta::assert_snapshot!(found.join("\n"), @r"
        the node can't run the pods in a user namespace (hostUsers: false): runtime does not support user namespaces
        kubectl appdeploy edit shop -n blue
        the node can't run the pods in a user namespace (hostUsers: false): failed to create containerd task: idmap mounts are not supported by the kernel
        kubectl appdeploy edit shop -n blue
        ");
        assert!(of(json!({"image": "nginx"}), kubelet).starts_with("a container does not start: "));
    }

    #[test]
    fn missing_config_map_of_a_queue_is_reported_as_the_queue() {
        let pod = json!({"image": "nginx", "queues": [{"name": "orders"}]});
        let pod = serde_json::from_value(pod).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let of = |name: &str| {
            let detail = format!("configmap \"{name}\" not found");
            diagnose_pod(subject, &PodProblem::new(Reason::MissingConfigMap, detail))
        };
        let found = of("orders-queue");
        assert_eq!((found.reason, found.stalled), (Reason::QueueNotReady, false));
        assert_eq!(
            found.message,
            "the pods wait for queue orders, which does not exist or is not ready"
        );
        assert_eq!(
            found.next.unwrap().to_string(),
            "kubectl appdeploy queue status orders -n blue"
        );
        let other = of("settings");
        assert_eq!((other.reason, other.stalled), (Reason::MissingConfigMap, true));
    }
}
