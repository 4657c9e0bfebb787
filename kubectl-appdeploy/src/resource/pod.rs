//! A pod in one word, as `kubectl get pods` has it.

use crd::PodFields;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use model::diagnose::{Reason, Subject, diagnose_pod};
use model::pod::PodState;

/// Returns the word for the state of a pod: `Running`, `CrashLoopBackOff`, `Init:ErrImagePull`, …
pub fn word(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let mut word = status.reason.or(status.phase).unwrap_or_else(|| "Unknown".to_owned());
    let inits = status.init_container_statuses.unwrap_or_default();
    let busy = inits
        .iter()
        .enumerate()
        .find(|(_, c)| !is_done(c) && c.started != Some(true));
    if let Some((index, container)) = busy {
        word = match problem(container) {
            Some(problem) if problem != "PodInitializing" => format!("Init:{problem}"),
            _ => format!("Init:{index}/{}", inits.len()),
        };
    } else if let Some(problem) = status.container_statuses.iter().flatten().rev().find_map(problem) {
        word = problem;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating".to_owned();
    }
    if word == "Pending" && is_unschedulable(pod) {
        return "Unschedulable".to_owned();
    }
    word
}

/// What keeps a pod from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProblem {
    /// The name of the pod.
    pub pod: String,
    /// What kind of trouble.
    pub reason: Reason,
    /// A sentence.
    pub message: String,
    /// Whether waiting does not help.
    pub terminal: bool,
}

/// Returns the problem that keeps a pod from running, as the operator reports it for pods of apps. If the pod is of an app or a pod
/// set, `fields` are those of its spec, and the message names them. Unlike there, a crash loop ends a wait, and the output of the
/// container is included, because the user has read the pod.
pub fn pod_problem(pod: &Pod, fields: Option<&PodFields>) -> Option<PodProblem> {
    /// The number of crashes after which a crash loop is reported.
    const CRASHES: i32 = 3;
    let PodState { name, problem, .. } = PodState::read(pod);
    let trouble = problem?.with_output();
    let reason = trouble.reason;
    let crashes = matches!(reason, Reason::CrashLoop | Reason::OutOfMemory) && restarts(pod) >= CRASHES;
    Some(PodProblem {
        message: diagnose_pod(
            Subject {
                pod: fields,
                ..Subject::named(
                    crd::Kind::AppDeploy,
                    &name,
                    pod.metadata.namespace.as_deref().unwrap_or_default(),
                )
            },
            &trouble,
        )
        .message,
        pod: name,
        reason,
        terminal: reason.is_stalled() || crashes,
    })
}

/// Whether a pod passes its readiness checks.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Returns the UID of the pod that a pod of a PodSet replaces.
pub fn replaces(pod: &Pod) -> Option<&str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(crd::annotation::REPLACES).map(String::as_str)
}

/// Returns ready and all containers: `1/1`.
pub fn containers(pod: &Pod) -> String {
    let all = pod.spec.as_ref().map_or(0, |spec| spec.containers.len()) + sidecars(pod).count();
    let ready = running(pod).filter(|c| c.ready).count();
    format!("{ready}/{all}")
}

/// Returns how often the containers were restarted.
pub fn restarts(pod: &Pod) -> i32 {
    running(pod).map(|c| c.restart_count).sum()
}

/// Returns the names of the sidecars, which are init containers that keep running.
fn sidecars(pod: &Pod) -> impl Iterator<Item = &str> {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    inits
        .filter(|init| init.restart_policy.as_deref() == Some("Always"))
        .map(|init| init.name.as_str())
}

/// Returns the statuses of the containers that keep running: sidecars, and all that are no init containers.
fn running(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod.status.iter();
    statuses.flat_map(|status| {
        let inits = status.init_container_statuses.iter().flatten();
        let sidecars = inits.filter(|init| sidecars(pod).any(|name| name == init.name));
        sidecars.chain(status.container_statuses.iter().flatten())
    })
}

fn is_done(container: &ContainerStatus) -> bool {
    container
        .state
        .as_ref()
        .and_then(|state| state.terminated.as_ref())
        .is_some_and(|ended| ended.exit_code == 0)
}

fn problem(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        return waiting.reason.clone().filter(|reason| !reason.is_empty());
    }
    let ended = state.terminated.as_ref()?;
    Some(match (&ended.reason, ended.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.clone(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", ended.exit_code),
    })
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|c| c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn sidecars_count_as_containers() {
        let status = |name: &str, ready: bool| json!({"name": name, "image": "", "imageID": "", "ready": ready, "restartCount": 1});
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"containers": [{"name": "app"}],
                "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "migrate"}]},
            "status": {"containerStatuses": [status("app", true)],
                "initContainerStatuses": [status("proxy", false), status("migrate", true)]}}))
        .unwrap();
        assert_eq!((&*containers(&pod), restarts(&pod)), ("1/2", 2));
    }

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [{"name": "app"}]}, "status": status})).unwrap()
    }

    #[test]
    fn state_of_a_pod_is_the_word_that_kubectl_prints() {
        let table = [
            (
                json!({"phase": "Running", "containerStatuses": [{"name": "app", "ready": true, "state": {"running": {}}}]}),
                "Running",
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
                "ImagePullBackOff",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]}),
                "Init:ErrImagePull",
            ),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
                "Unschedulable",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Failed", "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 2}}}]}),
                "ExitCode:2",
            ),
        ];
        for (status, expected) in table {
            let mut status = status;
            for list in ["containerStatuses", "initContainerStatuses"] {
                for one in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                    let defaults = json!({"image": "", "imageID": "", "ready": false, "restartCount": 0});
                    for (key, value) in defaults.as_object().unwrap() {
                        one.as_object_mut().unwrap().entry(key).or_insert(value.clone());
                    }
                }
            }
            assert_eq!(word(&pod(&status)), expected, "{status}");
        }
    }
}
