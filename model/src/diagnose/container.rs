//! Describes what keeps a container from working: that of the application, an init container or a sidecar.

use std::fmt;

use crd::PodFields;

use super::pod::{explain, out_of_memory};
use super::{Diagnosis, Reason, Subject, describe_pods, diagnosis, edit, logs, pull};
use crate::pod::{PodEvent, PodProblem};
use crate::{command, quantity};

/// Returns the diagnosis for what keeps a pod from working.
#[must_use]
pub fn diagnose_pod(subject: Subject<'_>, problem: &PodProblem) -> Diagnosis {
    let found = pull::of_volume(subject, problem).unwrap_or_else(|| match &problem.container {
        Some(name) => explain_other(subject, name, problem),
        None => explain(subject, problem),
    });
    // A queue may become ready without a change of the spec, and so may a container that the spec does not have.
    let may_change = matches!(found.reason, Reason::QueueNotReady | Reason::ContainerFailed);
    let stalled = problem.is_stalled() && !may_change;
    Diagnosis { stalled, ..found }
}

/// An init container or a sidecar of a spec.
#[derive(Clone, Copy)]
struct Named<'a> {
    name: &'a str,
    is_sidecar: bool,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_sidecar { "sidecar" } else { "init container" };
        write!(f, "{kind} {}", self.name)
    }
}

impl<'a> Named<'a> {
    fn find(pod: Option<&PodFields>, name: &'a str) -> Option<Self> {
        let (list, _) = pod?.other_containers().find(|(_, container)| container.name == name)?;
        let is_sidecar = list == "sidecars";
        Some(Self { name, is_sidecar })
    }
}

/// Returns the diagnosis for the problem of the container `name`, which is not that of the application.
fn explain_other(subject: Subject<'_>, name: &str, problem: &PodProblem) -> Diagnosis {
    if let Some(named) = Named::find(subject.pod, name) {
        return explain_named(subject, named, problem);
    }
    // A webhook has added it. Its output is not shown: no spec of ours gives it anything to read.
    let (reason, detail) = (problem.reason.as_str(), &problem.detail);
    let message = format!("a container does not start: {name}, which is not the application's ({reason}: {detail})");
    diagnosis(Reason::ContainerFailed, &message, Some(describe_pods(subject)))
}

fn explain_named(subject: Subject<'_>, named: Named<'_>, problem: &PodProblem) -> Diagnosis {
    let shown = problem.detail_for(subject.pod);
    let (reason, detail) = (problem.reason, &*shown);
    let own_log = || logs(subject).and(command!("-c {}", named.name));
    let (message, next) = match reason {
        Reason::ImageNotFound => (format!("image {detail} of {named} was not found"), edit(subject)),
        Reason::InvalidImageName => (
            format!("{detail}, the image of {named}, is not the name of an image"),
            edit(subject),
        ),
        Reason::ImagePullFailed => (
            format!("the image of {named} can't be pulled: {detail}"),
            describe_pods(subject),
        ),
        Reason::RunsAsRoot => (
            format!("the image of {named} runs as root, which securityProfile Restricted forbids"),
            edit(subject),
        ),
        Reason::CommandNotFound => (format!("the image of {named} has no {detail} to run"), edit(subject)),
        Reason::CrashLoop if named.is_sidecar => (format!("{named} ends by itself, with {detail}"), own_log()),
        Reason::CrashLoop => (format!("{named} fails, with {detail}"), own_log()),
        Reason::NotHealthy => {
            let is_refused = problem.failed_check.as_ref().and_then(|failed| failed.event.as_ref())
                == Some(&PodEvent::ConnectionRefused);
            let next = if is_refused { edit(subject) } else { own_log() };
            (format!("{named} is not healthy: {detail}"), next)
        }
        Reason::MemoryLimitTooSmall => (
            format!(
                "resources.limits.memory of {named} is {}, too little to start a container",
                quantity::with_unit(detail)
            ),
            edit(subject),
        ),
        Reason::OutOfMemory => (out_of_memory(&named.to_string(), detail), edit(subject)),
        Reason::MissingSecret
        | Reason::MissingConfigMap
        | Reason::MissingKey
        | Reason::ImagePullDenied
        | Reason::ImageVolumeUnsupported => return needed(subject, named, problem),
        _ => (format!("{named} does not start: {detail}"), describe_pods(subject)),
    };
    diagnosis(reason, &message, Some(next))
}

/// Returns the diagnosis for an object or an image that does not exist, that may not be pulled, or that can't be mounted.
fn needed(subject: Subject<'_>, named: Named<'_>, problem: &PodProblem) -> Diagnosis {
    let of_the_application = PodProblem {
        container: None,
        ..problem.clone()
    };
    let found = explain(subject, &of_the_application);
    let is_image = found.reason == Reason::ImagePullDenied;
    let has_secrets = subject.pod.is_some_and(|pod| !pod.image_pull_secrets.is_empty());
    Diagnosis {
        message: format!("{named} does not start: {}", found.message),
        // `set image` sets the image of the application.
        next: if is_image && !has_secrets {
            Some(edit(subject))
        } else {
            found.next
        },
        ..found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn container_is_named_with_what_to_do() {
        let pod = json!({"image": "nginx",
            "initContainers": [{"name": "migrate", "image": "shop:1", "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]}],
            "sidecars": [{"name": "proxy", "image": "proxy:1"}]});
        let pod: PodFields = serde_json::from_value(pod).unwrap();
        let subject = Subject {
            pod: Some(&pod),
            ..Subject::named(crd::Kind::AppDeploy, "shop", "blue")
        };
        let of = |name: &str, reason, detail: &str| {
            let found = diagnose_pod(subject, &PodProblem::new(reason, detail).of_container(name));
            let next = found.next.unwrap();
            format!("{}: {}\n  {next}", found.reason.as_str(), found.message)
        };
        let found = [
            of("migrate", Reason::CrashLoop, "exit code 3"),
            of("proxy", Reason::CrashLoop, "exit code 0, as if its work were done"),
            of("proxy", Reason::ImageNotFound, "proxy:1"),
            of("proxy", Reason::ImagePullDenied, "r.example/proxy:1: 401 Unauthorized"),
            of("migrate", Reason::CommandNotFound, "/migrate"),
            of("migrate", Reason::MissingSecret, "secret \"db\" not found"),
            of(
                "migrate",
                Reason::MissingKey,
                "couldn't find key password in Secret blue/db",
            ),
            of(
                "migrate",
                Reason::RunsAsRoot,
                "container has runAsNonRoot and image will run as root",
            ),
            of(
                "migrate",
                Reason::ImageVolumeUnsupported,
                "the container runtime of node n1 does not support image volumes",
            ),
            of("proxy", Reason::OutOfMemory, "64Mi"),
            of("proxy", Reason::MemoryLimitTooSmall, "64"),
            of("proxy", Reason::NotHealthy, "its health check fails"),
            of("added", Reason::CrashLoop, "exit code 1"),
        ];
        insta::assert_snapshot!(found.join("\n"));
    }
}
