//! What keeps one pod from working, said to a person.

use std::collections::BTreeSet;

use crd::PodFields;

use super::{Diagnosis, Reason, Subject, edit, pull, said};
use crate::pod::Trouble;

/// Says what keeps a pod of this spec from working.
pub(crate) fn diagnose_pod_of(subject: Subject<'_>, pod: &PodFields, trouble: &Trouble) -> Diagnosis {
    if trouble.reason == Reason::ImagePullDenied {
        return pull::denied(subject, pod, &trouble.detail);
    }
    let mut found = diagnose_pod(subject, trouble);
    found.next = found.next.map(|next| fill_in_keys(next, pod, trouble));
    found
}

/// Says what keeps one pod from working, without knowing its spec.
#[must_use]
pub fn diagnose_pod(subject: Subject<'_>, trouble: &Trouble) -> Diagnosis {
    let (reason, detail) = (trouble.reason, trouble.detail.as_str());
    let namespace = subject.namespace;
    let pods = format!("-n {namespace} -l {}", subject.kind.pod_selector(subject.name));
    let logs = Some(format!("kubectl logs {pods}"));
    let describe = Some(format!("kubectl describe pods {pods}"));
    let (message, next) = match reason {
        Reason::ImageNotFound => (format!("image {detail} was not found"), Some(edit(subject))),
        Reason::InvalidImageName => (format!("{detail} is not the name of an image"), Some(edit(subject))),
        Reason::ImagePullDenied => (
            format!(
                "the registry does not give out {}: there is no such image, or imagePullSecrets names no Secret with the right password",
                detail.split_once(": ").map_or(detail, |(image, _)| image)
            ),
            describe,
        ),
        Reason::ImagePullFailed => (format!("the image can't be pulled: {detail}"), describe),
        Reason::Unschedulable => (
            format!(
                "no node can take the pods: {}",
                detail.split(". ").next().unwrap_or(detail).trim_end_matches('.')
            ),
            Some("kubectl describe nodes".to_owned()),
        ),
        Reason::MissingSecret => (
            format!("Secret {} does not exist", quoted(detail)),
            Some(format!(
                "kubectl create secret generic {} -n {namespace} --from-literal=KEY=VALUE",
                quoted(detail)
            )),
        ),
        Reason::MissingConfigMap => (
            format!("ConfigMap {} does not exist", quoted(detail)),
            Some(format!(
                "kubectl create configmap {} -n {namespace} --from-literal=KEY=VALUE",
                quoted(detail)
            )),
        ),
        Reason::MissingKey => missing_key(namespace, detail),
        Reason::RunsAsRoot => (
            "the image runs as root, which securityProfile restricted forbids".to_owned(),
            Some(edit(subject)),
        ),
        Reason::NotHealthy => (format!("the pods run, but {detail}"), describe),
        Reason::CommandNotFound => (format!("the image has no {detail} to run"), Some(edit(subject))),
        Reason::CrashLoop => (format!("the application ends by itself, with {detail}"), logs),
        Reason::OutOfMemory => (
            "the application used more memory than resources.limits.memory allows".to_owned(),
            Some(edit(subject)),
        ),
        Reason::Evicted => (
            format!("the node evicted a pod: {detail}"),
            Some("kubectl describe nodes".to_owned()),
        ),
        _ => (format!("a container does not start: {detail}"), describe),
    };
    said(reason, &message, next)
}

/// The kubelet's own words: `couldn't find key password in Secret default/db`.
fn missing_key(namespace: &str, detail: &str) -> (String, Option<String>) {
    let words: Vec<&str> = detail.split_whitespace().collect();
    let (Some(key), Some(kind), Some(object)) = (words.get(3), words.get(5), words.get(6)) else {
        return (detail.to_owned(), None);
    };
    let object = object.rsplit('/').next().unwrap_or(object);
    let (resource, data) = if *kind == "Secret" {
        ("secret", "stringData")
    } else {
        ("configmap", "data")
    };
    let patch = format!(r#"{{"{data}":{{"{key}":"VALUE"}}}}"#);
    (
        format!("{kind} {object} has no key {key}"),
        Some(format!(
            "kubectl patch {resource} {object} -n {namespace} --type merge -p '{patch}'"
        )),
    )
}

/// Puts the keys that the spec refers to into a command that creates what it refers to.
fn fill_in_keys(next: String, pod: &PodFields, trouble: &Trouble) -> String {
    let sources = pod.env.iter().filter_map(|var| var.value_from.as_ref());
    let refs = sources.flat_map(|source| match trouble.reason {
        Reason::MissingSecret => source.secret_key_ref.iter(),
        _ => source.config_map_key_ref.iter(),
    });
    let name = quoted(&trouble.detail);
    let keys: BTreeSet<&str> = refs
        .filter(|key| key.name == name)
        .map(|key| key.key.as_str())
        .collect();
    if keys.is_empty() {
        return next;
    }
    let literals: Vec<String> = keys
        .into_iter()
        .map(|key| format!("--from-literal={key}=VALUE"))
        .collect();
    next.replace("--from-literal=KEY=VALUE", &literals.join(" "))
}

/// Returns the word in quotation marks: the name in a message of the kubelet.
fn quoted(detail: &str) -> &str {
    detail.split('"').nth(1).unwrap_or("NAME")
}
