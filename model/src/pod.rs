//! What a pod says about itself, reduced to what explains an application.

mod end;
mod last_words;
mod output;
mod probe;
mod start;
mod waiting;

use std::borrow::Cow;

use crd::PodFields;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Event, Pod, PodSpec};
use kube::core::Resource as _;

use crate::desired::CONTAINER;
use crate::diagnose::Reason;
pub use last_words::last_words;
pub use output::{Output, Readable};
pub use probe::{Answer, Check, Failed};
pub use start::Unstarted;

/// What the kubelet's Events about a pod are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Why its health check fails.
    Check,
    /// Why its containers are not started.
    Start,
}

/// A question about a pod that its status does not answer: the answer is in the kubelet's Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The UID of the pod.
    pub uid: Box<str>,
    /// What is asked.
    pub topic: Topic,
}

impl Question {
    /// Returns the field selector of the Events that have the answer.
    #[must_use]
    pub fn selector(&self) -> String {
        let of = match self.topic {
            Topic::Check => "reason=Unhealthy",
            Topic::Start => "type=Warning",
        };
        format!("involvedObject.uid={},{of}", self.uid)
    }

    /// Returns the answer in the newest of the Events that have one.
    #[must_use]
    pub fn read(&self, events: &[Event]) -> Option<Answer> {
        let time = |event: &Event| {
            let last = event.last_timestamp.as_ref().map(|time| time.0);
            last.or_else(|| event.event_time.as_ref().map(|time| time.0))
        };
        let answers = events.iter().filter_map(|event| {
            let message = event.message.as_deref()?;
            let answer = match self.topic {
                Topic::Check => Answer::read(message),
                Topic::Start => start::read(event.reason.as_deref()?, message),
            };
            Some((time(event), answer?))
        });
        answers.max_by_key(|(time, _)| *time).map(|(_, answer)| answer)
    }
}

/// How long a container may run without passing its health check, and a pod may wait for its sandbox, before that is a
/// cause, in seconds. The kubelet reports the first failure within two seconds; a status has to say it within 15 s of that.
const PATIENCE: i64 = 10;

/// How many crashes in a row mean that a container will not run by itself. With the kubelet's backoff the fourth comes
/// after about 35 s.
const CRASHES: i32 = 4;

/// A pod of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// Its identity; empty for one that is ready, of which nobody asks anything more.
    pub uid: Box<str>,
    /// It is ready.
    pub ready: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// It has ended for good, and was replaced: an evicted pod stays as a record for a long time.
    pub finished: bool,
    /// Its container runs, and its readiness is denied by its health check.
    pub unhealthy: Option<Unhealthy>,
    /// The kubelet has accepted it and has not made its sandbox yet.
    pub unstarted: Option<Unstarted>,
    /// Its container runs again after it had ended.
    pub shaky: Option<Shaky>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// The hash of the template that it was made from.
    pub template: Option<String>,
    /// What keeps it from working.
    pub trouble: Option<Trouble>,
    /// What the kubelet's Events say of its health check or its start. It is not in the pod's status; the caller adds it.
    pub answer: Option<Answer>,
}

/// What keeps a pod from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble.
    pub reason: Reason,
    /// The part of the kubelet's or scheduler's own words that says which image, key or amount.
    pub detail: String,
    /// Of a pod that is not healthy, what it was asked.
    pub failed: Option<Failed>,
    /// The last line that the container wrote. It is not part of `detail`.
    pub output: Option<Output>,
    /// How often in a row its container has ended.
    pub crashes: i32,
}

impl Trouble {
    /// Makes one.
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            failed: None,
            output: None,
            crashes: 0,
        }
    }

    fn unhealthy(failed: Failed) -> Self {
        Self {
            failed: Some(failed.clone()),
            ..Self::new(Reason::NotHealthy, failed.without_output().to_string())
        }
    }

    /// Returns the detail for readers of this spec: with what the container wrote, unless it can read something that the
    /// spec does not give it.
    #[must_use]
    pub fn detail_for(&self, pod: Option<&PodFields>) -> Cow<'_, str> {
        self.detail_if(|readable| readable.is_given_by(pod))
    }

    /// Adds what the container wrote to the detail. Only for readers who may read the pod itself.
    #[must_use]
    pub fn disclosed(self) -> Self {
        Self {
            detail: self.detail_if(|_| true).into_owned(),
            output: None,
            ..self
        }
    }

    fn detail_if(&self, may_show: impl Fn(&Readable) -> bool) -> Cow<'_, str> {
        if let Some(output) = self.output.as_ref().filter(|output| may_show(&output.readable)) {
            return Cow::Owned(format!("{}; its last words: \"{}\"", self.detail, output.text));
        }
        match self.failed.as_ref().filter(|failed| may_show(&failed.readable)) {
            Some(failed) => Cow::Owned(failed.to_string()),
            None => Cow::Borrowed(&self.detail),
        }
    }

    /// Whether waiting does not help: because of the reason, or because a container has crashed several times in a row.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        let ends = matches!(self.reason, Reason::CrashLoop | Reason::OutOfMemory);
        self.reason.is_stalled() || ends && self.crashes >= CRASHES
    }
}

/// A container that runs and does not pass its health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// Since when it does not pass, in seconds since 1970: since it began to run, or, if the kubelet has restarted it for
    /// its health check, since it began to run before.
    pub since: i64,
    /// What it is asked.
    pub check: Check,
    /// What it can read.
    pub readable: Readable,
}

/// A container that runs again after it had ended. It may count as ready and be about to end once more: what it
/// died of is its trouble until it has run for as long as the kubelet would have waited before the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaky {
    /// When it counts as steady, in seconds since 1970.
    pub until: i64,
    /// What it died of.
    pub trouble: Trouble,
}

/// How long a container has to have run for the kubelet to begin anew with its waiting, in seconds: twice the longest wait.
const STEADY: i64 = 600;

/// The kubelet waits ten seconds before the first new start of a container, and twice as long before each
/// further one, up to five minutes.
fn restart_backoff(restarts: i32) -> i64 {
    10_i64
        .saturating_mul(1 << restarts.clamp(1, 6).saturating_sub(1))
        .min(300)
}

impl PodState {
    /// Returns what keeps the pod from working at this time, in seconds since 1970.
    #[must_use]
    pub fn trouble_at(&self, now: i64) -> Option<Trouble> {
        let shaky = self
            .shaky
            .as_ref()
            .filter(|shaky| now < shaky.until)
            .map(|shaky| &shaky.trouble);
        let unhealthy = || {
            let unhealthy = self
                .unhealthy
                .as_ref()
                .filter(|unhealthy| now >= unhealthy.since + PATIENCE)?;
            Some(Trouble::unhealthy(Failed {
                check: unhealthy.check.clone(),
                answer: None,
                readable: unhealthy.readable.clone(),
            }))
        };
        let unstarted = || self.unstarted_at(now)?.trouble(self.answer.as_ref()?);
        let mut trouble = self.trouble.as_ref().or(shaky).cloned();
        trouble = trouble.or_else(unhealthy).or_else(unstarted);
        let mut trouble = trouble?;
        if let Some(failed) = trouble.failed.take() {
            let answer = self.answer.clone().filter(Answer::is_of_a_check);
            trouble = Trouble::unhealthy(Failed { answer, ..failed });
        }
        Some(trouble)
    }

    fn unstarted_at(&self, now: i64) -> Option<&Unstarted> {
        let unstarted = self.unstarted.as_ref();
        unstarted.filter(|unstarted| now >= unstarted.since + PATIENCE)
    }

    /// Returns what the kubelet's Events have to be read for at this time. `None` for a pod whose status says it all.
    #[must_use]
    pub fn question_at(&self, now: i64) -> Option<Question> {
        let topic = match self.trouble_at(now) {
            Some(trouble) if trouble.reason == Reason::NotHealthy => Topic::Check,
            _ => self.unstarted_at(now).map(|_| Topic::Start)?,
        };
        let uid = self.uid.clone();
        (!uid.is_empty()).then_some(Question { uid, topic })
    }

    /// Returns when, by the clock alone, [`PodState::trouble_at`] will say something else.
    #[must_use]
    pub fn changes_at(&self, now: i64) -> Option<i64> {
        let shaky = self.shaky.as_ref().map(|shaky| shaky.until);
        let unhealthy = self.unhealthy.as_ref().map(|unhealthy| unhealthy.since + PATIENCE);
        let unstarted = self.unstarted.as_ref().map(|unstarted| unstarted.since + PATIENCE);
        let times = [shaky, unhealthy, unstarted].into_iter().flatten();
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
            .map(|c| Trouble::new(Reason::Unschedulable, c.message.clone().unwrap_or_default()));
        // Ours by its name: others may have put a sidecar beside it.
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
        // The container that was to end, because its image was changed in place.
        let ended_by_us = pod
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
            (phase == "Failed").then(|| Trouble::new(reason, message))
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
                .filter(|_| !ready)
                .and_then(|status| unhealthy(status, spec, ended_by_us)),
            unstarted: status
                .filter(|_| !ready && !finished)
                .and_then(|status| Unstarted::read(status, own, container)),
            shaky: own.and_then(|status| shaky(status, spec, ended_by_us)),
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
            trouble: if ready {
                None
            } else {
                unschedulable
                    .or_else(evicted)
                    .or_else(|| trouble(own?, spec, ended_by_us))
                    .or_else(|| beside(pod))
            },
            answer: None,
        }
    }
}

fn trouble(status: &ContainerStatus, spec: ContainerSpec<'_>, ended_by_us: Option<&str>) -> Option<Trouble> {
    let state = status.state.as_ref();
    let image = spec.container.and_then(|spec| spec.image.as_deref());
    let image = image.unwrap_or(&status.image);
    let waits = state.and_then(|state| waiting::trouble(state.waiting.as_ref()?, image, spec.container));
    // A container that crashes is waiting, running and terminated in turn. While it waits, what it died of is in
    // its last state; while it runs, see `shaky`.
    if waits.is_some() || state.is_some_and(|state| state.running.is_some()) {
        return waits;
    }
    let died = state
        .and_then(|state| state.terminated.as_ref())
        .or_else(|| status.last_state.as_ref()?.terminated.as_ref())
        .filter(|died| !end::is_of(died, ended_by_us))?;
    let crashes = end::in_a_row(died, status.restart_count).saturating_add(1);
    Some(Trouble {
        crashes,
        ..end::trouble(died, spec)
    })
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

/// Returns the trouble of a container that is not ours: one that a webhook has put beside the application's, without which
/// the pod does not become ready.
fn beside(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    let others = status
        .container_statuses
        .iter()
        .flatten()
        .filter(|c| c.name != CONTAINER);
    inits.chain(others).filter(|one| !one.ready).find_map(|one| {
        let specs = pod.spec.iter();
        let mut specs = specs.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let spec = ContainerSpec {
            pod: pod.spec.as_ref(),
            container: specs.find(|c| c.name == one.name),
        };
        // Without its output: no spec of ours gives it anything.
        let Trouble { reason, detail, .. } = trouble(one, spec, None)?;
        let (name, reason) = (&one.name, reason.as_str());
        let detail = format!("{name}, which is not the application's ({reason}: {detail})");
        Some(Trouble::new(Reason::ContainerFailed, detail))
    })
}

fn shaky(status: &ContainerStatus, spec: ContainerSpec<'_>, ended_by_us: Option<&str>) -> Option<Shaky> {
    let since = running_since(status)?;
    let died = status.last_state.as_ref()?.terminated.as_ref()?;
    if end::is_of(died, ended_by_us) {
        return None;
    }
    let crashes = end::in_a_row(died, status.restart_count);
    Some(Shaky {
        until: since + restart_backoff(crashes),
        trouble: Trouble {
            crashes,
            ..end::trouble(died, spec)
        },
    })
}

fn unhealthy(status: &ContainerStatus, spec: ContainerSpec<'_>, ended_by_us: Option<&str>) -> Option<Unhealthy> {
    let (since, container) = (running_since(status)?, spec.container?);
    let probe = if status.started? {
        container.readiness_probe.as_ref()?
    } else {
        container.startup_probe.as_ref()?
    };
    let killed = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let killed =
        killed.filter(|died| !end::is_of(died, ended_by_us) && end::failed_probe(died, Some(container)).is_some());
    let before = killed.and_then(|died| died.started_at.as_ref());
    Some(Unhealthy {
        since: before.map_or(since, |time| time.0.as_second().min(since)),
        check: Check::of(probe),
        readable: spec.readable(),
    })
}

fn running_since(status: &ContainerStatus) -> Option<i64> {
    let started = status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
    Some(started.0.as_second())
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
    fn failed_pull_of_the_image_before_is_not_reported_for_the_new_one() {
        let read = |image: &str, message: &str| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
                "status": waiting("ImagePullBackOff", message),
                "spec": {"containers": [{"name": "app", "image": image}]}}))
            .unwrap();
            PodState::read(&pod).trouble.map(|trouble| trouble.reason)
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
    fn a_registry_that_cannot_be_reached_may_come_back() {
        let error = "failed to do request: Head \"https://registry.example/v2/app/manifests/1\": dial tcp 10.0.0.1:443: i/o timeout";
        assert_eq!(read(waiting("ErrImagePull", error)).unwrap().0, Reason::ImagePullFailed);
    }

    #[test]
    fn a_wrong_password_is_told_from_a_missing_image() {
        let error = "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized";
        let pulling = read(waiting("ErrImagePull", error));
        assert_eq!(pulling, Some((Reason::ImagePullDenied, format!("nginx:nope: {error}"))));
        let backing_off = format!("Back-off pulling image \"nginx:nope\": ErrImagePull: {error}");
        assert_eq!(read(waiting("ImagePullBackOff", &backing_off)), pulling);
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
    fn a_container_that_has_crashed_is_steady_when_it_has_run_for_a_while() {
        let pod = |restarts: i32| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{
                "name": "app", "image": "busybox", "imageID": "", "ready": true, "restartCount": restarts, "started": true,
                "state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}, "lastState": {"terminated": {"exitCode": 3}}}]}}))
            .unwrap();
            PodState::read(&pod)
        };
        let reason = |restarts, now| pod(restarts).trouble_at(now).map(|trouble| trouble.reason);
        assert_eq!((reason(1, 109), reason(1, 110)), (Some(Reason::CrashLoop), None));
        assert_eq!((reason(3, 139), reason(3, 140)), (Some(Reason::CrashLoop), None));
        assert_eq!((reason(99, 399), reason(99, 400)), (Some(Reason::CrashLoop), None));
        assert_eq!((pod(3).changes_at(100), pod(3).changes_at(140)), (Some(140), None));
    }

    /// A container that has ended, in a pod whose image was changed in place when `c1` ran in it.
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
    fn an_end_that_an_update_in_place_has_brought_is_no_crash() {
        let running = json!({"running": {"startedAt": "1970-01-02T03:46:40Z"}});
        let starting = json!({"waiting": {"reason": "ContainerCreating"}});
        for state in [running, starting] {
            let reason = |container| {
                let pod = ended(container, 3, 60, &state);
                pod.trouble_at(100_001).map(|trouble| trouble.reason)
            };
            assert_eq!(reason("containerd://c1"), None);
            assert_eq!(reason("containerd://c2"), Some(Reason::CrashLoop), "it ended by itself");
        }
    }

    #[test]
    fn a_container_that_ends_after_a_long_life_is_restarted_as_if_it_were_its_first_end() {
        let running = json!({"running": {"startedAt": "1970-01-02T03:46:40Z"}});
        let until = |lived| ended("containerd://c2", 9, lived, &running).shaky.unwrap().until;
        assert_eq!((until(599), until(600)), (100_300, 100_010));
    }

    #[test]
    fn a_health_check_that_does_not_pass_is_a_cause_after_a_while() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
            "spec": {"containers": [{"name": "app", "readinessProbe": {"tcpSocket": {"port": 8081}}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "nginx", "imageID": "", "ready": false,
                "restartCount": 0, "started": true, "state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}}}]}}))
        .unwrap();
        let pod = PodState::read(&pod);
        assert_eq!((pod.trouble_at(109), pod.changes_at(109)), (None, Some(110)));
        let told = |pod: &PodState| pod.trouble_at(110).map(|trouble| (trouble.reason, trouble.detail));
        let detail = "nothing accepts connections on port 8081".to_owned();
        assert_eq!(told(&pod), Some((Reason::NotHealthy, detail)));
        let answered = PodState {
            answer: Some(Answer::Refused),
            ..pod
        };
        let detail = "nothing listens on port 8081".to_owned();
        assert_eq!(told(&answered), Some((Reason::NotHealthy, detail)));
    }

    #[test]
    fn a_command_that_the_image_lacks_is_named() {
        let message = "failed to create containerd task: exec: \"nosuchbinary\": executable file not found in $PATH";
        assert_eq!(
            read(waiting("CreateContainerError", message)),
            Some((Reason::CommandNotFound, "nosuchbinary".into()))
        );
    }

    #[test]
    fn a_crash_is_one_cause_in_each_of_its_states() {
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
    fn a_container_that_the_kubelet_ends_for_its_health_is_no_crash() {
        let probe = json!({"periodSeconds": 2, "failureThreshold": 30, "tcpSocket": {"port": 80}});
        let read = |lived: &str, code: i32| {
            let died = json!({"terminated": {"exitCode": code, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": lived}});
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"},
                "spec": {"containers": [{"name": "app", "startupProbe": probe}]},
                "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "nginx", "imageID": "", "ready": false,
                    "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": died}]}}))
            .unwrap();
            PodState::read(&pod).trouble.unwrap().reason
        };
        assert_eq!(read("2026-01-01T00:01:00Z", 0), Reason::NotHealthy);
        assert_eq!(read("2026-01-01T00:01:00Z", 3), Reason::CrashLoop);
        assert_eq!(read("2026-01-01T00:00:05Z", 0), Reason::CrashLoop);
    }

    #[test]
    fn the_trouble_of_a_sidecar_is_told_with_its_name() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": {"phase": "Pending", "containerStatuses": [
            {"name": "agent", "image": "mesh", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "InvalidImageName"}}},
            {"name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]}}))
        .unwrap();
        let detail = "agent, which is not the application's (InvalidImageName: mesh)";
        let trouble = PodState::read(&pod).trouble;
        assert_eq!(trouble, Some(Trouble::new(Reason::ContainerFailed, detail)));
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
