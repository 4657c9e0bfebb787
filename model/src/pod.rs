//! The state of one pod, as far as it explains the state of an app or a pod set.

mod container;
mod end;
mod event;
mod output;
mod probe;
mod problem;
mod start;
mod text;
mod waiting;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::core::Resource as _;

use crate::desired::CONTAINER;
use crate::reason::Reason;
pub use container::{RecentRestart, Unhealthy};
pub use event::{EventQuery, EventTopic, PodEvent};
pub use output::{Output, Readable};
pub use probe::{Check, FailedCheck};
pub use problem::PodProblem;
pub use start::Unstarted;
pub use text::last_line;

/// How long a container may run without passing its health check, and a pod may wait for its sandbox, before the status
/// reports it, in seconds. The kubelet reports the first failure within two seconds; a status must report it within 15 s of
/// that.
const REPORTED_AFTER: i64 = 10;

/// The state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// Its UID. Empty for a ready pod, whose Events are never needed.
    pub uid: Box<str>,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its phase is Succeeded or Failed. An evicted pod stays as a record for a long time after it was replaced.
    pub finished: bool,
    /// Set if its container runs and does not pass its health check.
    pub unhealthy: Option<Unhealthy>,
    /// Set if the kubelet has accepted it and has not created its sandbox yet.
    pub unstarted: Option<Unstarted>,
    /// Set if its container was restarted after it had ended.
    pub recent_restart: Option<RecentRestart>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// The hash of the pod template, from the label `pod-template-hash`.
    pub template: Option<String>,
    /// The problem that its status shows.
    pub problem: Option<PodProblem>,
    /// The kubelet's Events about its health check or its start. The caller sets it after it has read the Events that
    /// [`PodState::event_query_at`] selects.
    pub event: Option<PodEvent>,
}

impl PodState {
    /// Returns what keeps the pod from working at a time, in seconds since 1970.
    #[must_use]
    pub fn problem_at(&self, now: i64) -> Option<PodProblem> {
        let restarted = self
            .recent_restart
            .as_ref()
            .filter(|restart| now < restart.until)
            .map(|restart| &restart.problem);
        let unhealthy = || {
            let unhealthy = self
                .unhealthy
                .as_ref()
                .filter(|unhealthy| now >= unhealthy.since + REPORTED_AFTER)?;
            Some(PodProblem::unhealthy(FailedCheck {
                check: unhealthy.check.clone(),
                event: None,
                readable: unhealthy.readable.clone(),
            }))
        };
        let unstarted = || self.unstarted_at(now)?.problem(self.event.as_ref()?);
        let known = self.problem.as_ref().or(restarted).cloned();
        let mut problem = known.or_else(unhealthy).or_else(unstarted)?;
        if let Some(failed) = problem.failed_check.take() {
            let event = self.event.clone().filter(PodEvent::is_of_a_check);
            problem = PodProblem::unhealthy(FailedCheck { event, ..failed });
        }
        Some(problem)
    }

    fn unstarted_at(&self, now: i64) -> Option<&Unstarted> {
        let unstarted = self.unstarted.as_ref();
        unstarted.filter(|unstarted| now >= unstarted.since + REPORTED_AFTER)
    }

    /// Returns which Events of the kubelet explain the pod at a time, in seconds since 1970. `None` if its status is enough.
    #[must_use]
    pub fn event_query_at(&self, now: i64) -> Option<EventQuery> {
        let (container, topic) = match self.problem_at(now) {
            Some(problem) if problem.reason == Reason::NotHealthy => {
                let failed = problem.failed_check;
                let container = failed.map(|failed| failed.readable.container().into());
                (container.unwrap_or_default(), EventTopic::HealthCheck)
            }
            _ => (Box::default(), self.unstarted_at(now).map(|_| EventTopic::Start)?),
        };
        let uid = self.uid.clone();
        (!uid.is_empty()).then_some(EventQuery { uid, container, topic })
    }

    /// Returns the next time after `now` at which [`PodState::problem_at`] changes although the pod does not.
    #[must_use]
    pub fn changes_at(&self, now: i64) -> Option<i64> {
        let restart = self.recent_restart.as_ref().map(|restart| restart.until);
        let unhealthy = self
            .unhealthy
            .as_ref()
            .map(|unhealthy| unhealthy.since + REPORTED_AFTER);
        let unstarted = self
            .unstarted
            .as_ref()
            .map(|unstarted| unstarted.since + REPORTED_AFTER);
        let times = [restart, unhealthy, unstarted].into_iter().flatten();
        times.filter(|at| *at > now).min()
    }

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
            .map(|c| PodProblem::new(Reason::Unschedulable, c.message.clone().unwrap_or_default()));
        // By name: a webhook may have added a sidecar.
        let container = pod
            .spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .find(|c| c.name == CONTAINER);
        let spec = ContainerSpec {
            pod: pod.spec.as_ref(),
            container,
        };
        let statuses = || status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        // The container that the kubelet had to stop because its image was changed in place.
        let replaced = pod
            .meta()
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(crd::annotation::UPDATED_FROM))
            .map(String::as_str);
        let own = statuses().find(|c| c.name == CONTAINER).or_else(|| statuses().next());
        let evicted = || {
            let is_evicted = status.and_then(|s| s.reason.as_deref()) == Some("Evicted");
            let reason = if is_evicted {
                Reason::Evicted
            } else {
                Reason::ContainerFailed
            };
            let message = status.and_then(|s| s.message.clone()).unwrap_or_default();
            (phase == "Failed").then(|| PodProblem::new(reason, message))
        };
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: match &pod.metadata.uid {
                Some(uid) if !ready => uid.as_str().into(),
                _ => Box::default(),
            },
            ready,
            deleting: pod.metadata.deletion_timestamp.is_some(),
            finished,
            unhealthy: own
                .and_then(|status| Unhealthy::read(status, spec, replaced))
                .or_else(|| {
                    let mut others = container::others(pod).filter(|(status, _)| !status.ready);
                    others.find_map(|(status, spec)| Unhealthy::read(status, spec, None))
                })
                .filter(|_| !ready),
            unstarted: status
                .filter(|_| !ready && !finished)
                .and_then(|status| Unstarted::read(status, own, container)),
            recent_restart: own
                .and_then(|status| RecentRestart::read(status, spec, replaced))
                .or_else(|| {
                    let mut others = container::others(pod);
                    others.find_map(|(status, spec)| RecentRestart::read(status, spec, None))
                }),
            created: pod
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(0, |time| time.0.as_second()),
            template: pod
                .meta()
                .labels
                .as_ref()
                .and_then(|labels| labels.get("pod-template-hash"))
                .cloned(),
            problem: if ready {
                None
            } else {
                unschedulable
                    .or_else(evicted)
                    .or_else(|| container::problem(own?, spec, replaced))
                    .or_else(|| {
                        let mut others = container::others(pod).filter(|(status, _)| !status.ready);
                        others.find_map(|(status, spec)| {
                            Some(container::problem(status, spec, None)?.of_container(&status.name))
                        })
                    })
            },
            event: None,
        }
    }
}

/// The spec of a container and of its pod, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
struct ContainerSpec<'a> {
    pod: Option<&'a PodSpec>,
    container: Option<&'a Container>,
}

impl ContainerSpec<'_> {
    fn readable(&self) -> Readable {
        Readable::of(self.pod, self.container)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(status: Value) -> Option<(Reason, String)> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": status,
            "spec": {"containers": [{"name": "app", "image": "nginx:nope"}]}}))
        .unwrap();
        PodState::read(&pod)
            .problem
            .map(|problem| (problem.reason, problem.detail))
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "app", "image": "nginx:nope", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn missing_image_is_the_same_cause_while_pulling_and_while_backing_off() {
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
    fn failed_pull_of_the_previous_image_is_not_reported_for_the_new_one() {
        let read = |image: &str, message: &str| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
                "status": waiting("ImagePullBackOff", message),
                "spec": {"containers": [{"name": "app", "image": image}]}}))
            .unwrap();
            PodState::read(&pod).problem.map(|problem| problem.reason)
        };
        let of_old = "Back-off pulling image \"nginx:nope\": ErrImagePull: failed to pull and unpack image \
                      \"docker.io/library/nginx:nope\": docker.io/library/nginx:nope: not found";
        assert_eq!(read("nginx:1.29", of_old), None);
        assert_eq!(read("nginx", of_old), None);
        for (image, pulled) in [
            ("nginx:nope", "nginx:nope"),
            ("nginx", "docker.io/library/nginx:latest"),
            ("acme/shop:1", "docker.io/acme/shop:1"),
            ("localhost:5000/shop", "localhost:5000/shop:latest"),
            ("nginx:1@sha256:aa", "docker.io/library/nginx@sha256:aa"),
        ] {
            let message = format!("failed to pull and unpack image \"{pulled}\": not found");
            assert_eq!(read(image, &message), Some(Reason::ImageNotFound), "{image}");
        }
        assert_eq!(read("nginx:1.29", "manifest unknown"), Some(Reason::ImageNotFound));
    }

    #[test]
    fn unreachable_registry_is_a_failed_pull() {
        let error = "failed to do request: Head \"https://registry.example/v2/app/manifests/1\": dial tcp 10.0.0.1:443: i/o timeout";
        assert_eq!(read(waiting("ErrImagePull", error)).unwrap().0, Reason::ImagePullFailed);
    }

    #[test]
    fn denied_pull_is_distinguished_from_a_missing_image() {
        let error = "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized";
        let pulling = read(waiting("ErrImagePull", error));
        assert_eq!(pulling, Some((Reason::ImagePullDenied, format!("nginx:nope: {error}"))));
        let backing_off = format!("Back-off pulling image \"nginx:nope\": ErrImagePull: {error}");
        assert_eq!(read(waiting("ImagePullBackOff", &backing_off)), pulling);
    }

    #[test]
    fn missing_source_of_a_variable_is_reported() {
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
    fn container_that_has_crashed_is_steady_after_its_backoff() {
        let pod = |restarts: i32| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
                "name": "app", "image": "busybox", "imageID": "", "ready": true, "restartCount": restarts, "started": true,
                "state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}, "lastState": {"terminated": {"exitCode": 3}}}]}}))
            .unwrap();
            PodState::read(&pod)
        };
        let reason = |restarts, now| pod(restarts).problem_at(now).map(|problem| problem.reason);
        assert_eq!((reason(1, 109), reason(1, 110)), (Some(Reason::CrashLoop), None));
        assert_eq!((reason(3, 139), reason(3, 140)), (Some(Reason::CrashLoop), None));
        assert_eq!((reason(99, 399), reason(99, 400)), (Some(Reason::CrashLoop), None));
        assert_eq!((pod(3).changes_at(100), pod(3).changes_at(140)), (Some(140), None));
    }

    /// Returns a pod whose container has ended, and whose image was changed in place while `c1` ran in it.
    fn ended(container: &str, restarts: i32, lived: i64, state: &Value) -> PodState {
        let time = |second| jiff::Timestamp::from_second(second).unwrap().to_string();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-1", "annotations": {"appdeploy.dev/updated-from": "containerd://c1"}},
            "status": {"phase": "Running", "containerStatuses": [{
                "name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": restarts, "started": true,
                "state": state, "lastState": {"terminated": {"exitCode": 0, "containerID": container,
                    "startedAt": time(100_000 - lived), "finishedAt": time(100_000)}}}]},
        }))
        .unwrap();
        PodState::read(&pod)
    }

    #[test]
    fn end_because_of_an_update_in_place_is_not_a_crash() {
        let running = json!({"running": {"startedAt": "1970-01-02T03:46:40Z"}});
        let starting = json!({"waiting": {"reason": "ContainerCreating"}});
        for state in [running, starting] {
            let reason = |container| {
                let pod = ended(container, 3, 60, &state);
                pod.problem_at(100_001).map(|problem| problem.reason)
            };
            assert_eq!(reason("containerd://c1"), None);
            assert_eq!(reason("containerd://c2"), Some(Reason::CrashLoop), "it ended by itself");
        }
    }

    #[test]
    fn long_run_resets_the_backoff() {
        let running = json!({"running": {"startedAt": "1970-01-02T03:46:40Z"}});
        let until = |lived| {
            ended("containerd://c2", 9, lived, &running)
                .recent_restart
                .unwrap()
                .until
        };
        assert_eq!((until(599), until(600)), (100_300, 100_010));
    }

    #[test]
    fn failed_health_check_is_reported_after_some_seconds() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
            "spec": {"containers": [{"name": "app", "readinessProbe": {"tcpSocket": {"port": 8081}}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "nginx", "imageID": "", "ready": false,
                "restartCount": 0, "started": true, "state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}}]}}))
        .unwrap();
        let pod = PodState::read(&pod);
        assert_eq!((pod.problem_at(109), pod.changes_at(109)), (None, Some(110)));
        let report = |pod: &PodState| pod.problem_at(110).map(|problem| (problem.reason, problem.detail));
        let detail = "nothing accepts connections on port 8081".to_owned();
        assert_eq!(report(&pod), Some((Reason::NotHealthy, detail)));
        let answered = PodState {
            event: Some(PodEvent::ConnectionRefused),
            ..pod
        };
        let detail = "nothing listens on port 8081".to_owned();
        assert_eq!(report(&answered), Some((Reason::NotHealthy, detail)));
    }

    #[test]
    fn missing_command_is_reported() {
        let message = "failed to create containerd task: exec: \"nosuchbinary\": executable file not found in $PATH";
        assert_eq!(
            read(waiting("CreateContainerError", message)),
            Some((Reason::CommandNotFound, "nosuchbinary".into()))
        );
    }

    #[test]
    fn crash_is_the_same_cause_in_each_state_of_the_container() {
        let died = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        for state in [
            died.clone(),
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}),
        ] {
            let pod = json!({"phase": "Running", "containerStatuses": [{
                "name": "app", "image": "busybox", "imageID": "", "ready": false, "restartCount": 2, "state": state, "lastState": died}]});
            assert_eq!(read(pod), Some((Reason::CrashLoop, "exit code 3".into())));
        }
    }

    #[test]
    fn container_that_the_kubelet_stops_is_unhealthy() {
        let probe = json!({"periodSeconds": 2, "failureThreshold": 30, "tcpSocket": {"port": 80}});
        let read = |lived: &str, code: i32| {
            let died = json!({"terminated": {"exitCode": code, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": lived}});
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
                "spec": {"containers": [{"name": "app", "startupProbe": probe}]},
                "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "nginx", "imageID": "", "ready": false,
                    "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": died}]}}))
            .unwrap();
            PodState::read(&pod).problem.unwrap().reason
        };
        assert_eq!(read("2026-01-01T00:01:00Z", 0), Reason::NotHealthy);
        assert_eq!(read("2026-01-01T00:01:00Z", 3), Reason::CrashLoop);
        assert_eq!(read("2026-01-01T00:00:05Z", 0), Reason::CrashLoop);
    }

    #[test]
    fn problem_of_a_sidecar_is_reported_with_its_name() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": {"phase": "Pending", "containerStatuses": [
            {"name": "agent", "image": "mesh", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "InvalidImageName"}}},
            {"name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]}}))
        .unwrap();
        let problem = PodState::read(&pod).problem;
        let expected = PodProblem::new(Reason::InvalidImageName, "mesh").of_container("agent");
        assert_eq!(problem, Some(expected));
    }

    fn with_other_containers(given: &Value) -> PodState {
        let status = |name: &str, ready: bool, fields: &Value| {
            let mut status = json!({"name": name, "image": "", "imageID": "", "ready": ready, "restartCount": 2});
            status
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            status
        };
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
            "spec": {"containers": [{"name": "app"}], "initContainers": [
                {"name": "proxy", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}}, {"name": "migrate"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                    status("proxy", given["proxy ready"] == true, &given["proxy"]), status("migrate", false, &given["migrate"])],
                "containerStatuses": [status("app", false, &json!({"state": {"waiting": {"reason": "PodInitializing"}}}))]}}))
        .unwrap();
        PodState::read(&pod)
    }

    #[test]
    fn failing_init_container_is_reported_in_each_of_its_states() {
        let ended = |code: i32| json!({"terminated": {"exitCode": code, "message": "no database\n"}});
        let proxy = json!({"state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}, "started": true});
        let read = |migrate: Value| {
            let pod = with_other_containers(&json!({"proxy": proxy, "proxy ready": true, "migrate": migrate}));
            let found = pod.problem_at(101)?;
            Some((
                found.container?.to_string(),
                found.reason,
                found.detail,
                found.output.map(|output| output.text),
            ))
        };
        let running = json!({"running": {"startedAt": "1970-01-01T00:01:40Z"}});
        let expected = (
            "migrate".to_owned(),
            Reason::CrashLoop,
            "exit code 3".to_owned(),
            Some("no database".to_owned()),
        );
        for migrate in [
            json!({"state": ended(3)}),
            json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended(3)}),
            json!({"state": running, "lastState": ended(3)}),
        ] {
            assert_eq!(read(migrate), Some(expected.clone()));
        }
        for migrate in [
            json!({"state": running}),
            json!({"state": ended(0)}),
            json!({"state": running, "lastState": ended(0)}),
            json!({"state": {"waiting": {"reason": "PodInitializing"}}}),
        ] {
            assert_eq!(read(migrate), None);
        }
    }

    #[test]
    fn sidecar_that_fails_its_probe_is_reported() {
        let proxy = json!({"state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}, "started": true});
        let pod =
            with_other_containers(&json!({"proxy": proxy, "migrate": {"state": {"terminated": {"exitCode": 0}}}}));
        assert_eq!(pod.problem_at(109), None);
        let found = pod.problem_at(110).unwrap();
        assert_eq!(
            (found.container.as_deref(), found.reason),
            (Some("proxy"), Reason::NotHealthy)
        );
    }

    #[test]
    fn message_of_the_scheduler_is_kept() {
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
    fn ready_pod_has_no_problem() {
        let pod = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
            "name": "app", "image": "busybox", "imageID": "", "ready": true, "restartCount": 1, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1}}}]});
        assert_eq!(read(pod), None);
    }
}
