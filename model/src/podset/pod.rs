//! A pod of a PodSet, reduced to what decisions depend on.

use crd::annotation;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::image::{ImageChange, Reported};
use super::{ValidPodSet, adoption};
use crate::defaults::GRACE;
use crate::desired::CONTAINER;

/// The annotation with the relative cost of the deletion of a pod, as for a ReplicaSet.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How long a container without a readiness probe must run to count as available, in seconds, because a container that
/// exits immediately is also ready for a moment. Three as for an AppDeploy, and one more because kubelets round the start
/// down to seconds.
const SHORTEST_RUN: i64 = 4;

/// How long after its deletion time, which includes its grace period, the slot of a pod is no longer used, in seconds.
const OVERDUE_AFTER: i64 = 30;

/// A pod that carries a PodSet's label or controller reference.
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetPod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion, the precondition of a change of its image.
    pub version: String,
    /// Its controller.
    pub controller: Option<Controller>,
    /// The name of the PodSet in its label.
    pub label: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its deletion time, in seconds since 1970.
    pub ends_by: Option<i64>,
    /// Whether it has finalizers.
    pub is_held: bool,
    /// Its phase.
    pub phase: Phase,
    /// Its node.
    pub node: Option<String>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Since when it has been ready, in seconds since 1970; `None` while it is not.
    pub ready_since: Option<i64>,
    /// The relative cost of its deletion.
    pub deletion_cost: i32,
    /// The largest number of restarts of a container.
    pub restarts: i32,
    /// The same for its sidecars, which are init containers that keep running.
    pub sidecar_restarts: i32,
    /// The recorded hash of its template.
    pub template: Option<String>,
    /// The recorded hash of the part of its template that can't be changed in place.
    pub shape: Option<String>,
    /// The image in its spec.
    pub image: Option<String>,
    /// The id of the container that its node reports; empty if none. `None` if the spec has no container with the
    /// operator's name, so that its image can't be changed.
    pub container: Option<String>,
    /// Whether that container is running.
    pub is_running: bool,
    /// Whether a container is running without a reported id.
    pub is_anonymous: bool,
    /// When that container was started, in seconds since 1970.
    pub started: Option<i64>,
    /// Whether that container has a readiness probe.
    pub has_probe: bool,
    /// Whether its node has reported a status for the current spec. `None` for kubelets before Kubernetes 1.34, which do
    /// not report that.
    pub observed: Option<bool>,
    /// Which image its node reports.
    pub reported: Reported,
    /// The last change of its image in place.
    pub change: Option<ImageChange>,
    /// How many seconds its grace period is longer than the default.
    pub longer_grace: i64,
    /// Its spec with defaults, if the pod may be adopted.
    pub orphan_spec: Option<Box<serde_json::Value>>,
    /// Whether its pull policy is `Always`.
    pub always_pulls: bool,
    /// The UID of the pod that it replaces.
    pub replaces: Option<String>,
    /// The UID of the PodSet that has released it.
    pub released_from: Option<String>,
}

/// The controller of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Its kind and name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The phase of a pod, in the order in which pods are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Not all containers have been started.
    #[default]
    Pending,
    /// Its node is unreachable.
    Unknown,
    /// It is running.
    Running,
    /// It has succeeded or failed.
    Finished,
}

impl SetPod {
    /// Reads a live pod.
    #[must_use]
    pub fn read(pod: &Pod) -> Self {
        let annotation = |name: &str| pod.annotations().get(name).cloned();
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .and_then(|all| all.iter().find(|c| c.type_ == "Ready"))
            .filter(|ready| ready.status == "True");
        let containers = || status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        let mut specs = pod.spec.iter().flat_map(|spec| &spec.containers);
        let ours = specs.find(|c| c.name == CONTAINER);
        let running = containers().find(|c| c.name == CONTAINER);
        let created = pod.creation_timestamp().map_or(0, |time| time.0.as_second());
        let state = running.and_then(|container| container.state.as_ref());
        let started = state.and_then(|state| state.running.as_ref()?.started_at.as_ref());
        let is_running = state.is_some_and(|state| state.running.is_some());
        let id = running.and_then(|container| container.container_id.clone());
        let image = ours.and_then(|ours| ours.image.clone());
        let change = annotation(annotation::UPDATED_FROM).map(|container| ImageChange {
            container,
            image: annotation(annotation::UPDATED_FROM_IMAGE).unwrap_or_default(),
            at: annotation(annotation::UPDATED_AT)
                .and_then(|at| at.parse::<Timestamp>().ok())
                .map_or(created, Timestamp::as_second),
        });
        let controller = crate::children::controller(&pod.metadata);
        let label = pod.labels().get(crd::label::PODSET).cloned();
        let is_orphan = controller.is_none() && label.is_some();
        Self {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            version: pod.resource_version().unwrap_or_default(),
            orphan_spec: pod
                .spec
                .as_ref()
                .filter(|_| is_orphan)
                .map(|spec| Box::new(adoption::comparable(spec))),
            controller: controller.map(|(name, uid)| Controller {
                name,
                uid: uid.to_owned(),
            }),
            label,
            longer_grace: pod
                .spec
                .as_ref()
                .and_then(|spec| spec.termination_grace_period_seconds)
                .map_or(0, |seconds| seconds.saturating_sub(GRACE).max(0)),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            ends_by: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0.as_second()),
            is_held: !pod.finalizers().is_empty(),
            phase: match status.and_then(|s| s.phase.as_deref()) {
                Some("Running") => Phase::Running,
                Some("Unknown") => Phase::Unknown,
                Some("Succeeded" | "Failed") => Phase::Finished,
                _ => Phase::Pending,
            },
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            created,
            ready_since: ready.map(|ready| ready.last_transition_time.as_ref().map_or(created, |t| t.0.as_second())),
            deletion_cost: annotation(DELETION_COST)
                .and_then(|cost| cost.parse().ok())
                .unwrap_or(0),
            restarts: containers().map(|c| c.restart_count).max().unwrap_or(0),
            sidecar_restarts: sidecar_restarts(pod),
            template: annotation(annotation::TEMPLATE_HASH),
            shape: annotation(annotation::SHAPE_HASH),
            is_anonymous: is_running && id.is_none(),
            container: ours.map(|_| id.unwrap_or_default()),
            is_running,
            started: started.map(|time| time.0.as_second()),
            has_probe: ours.is_some_and(|ours| ours.readiness_probe.is_some()),
            observed: pod
                .metadata
                .generation
                .zip(status.and_then(|status| status.observed_generation))
                .map(|(generation, observed)| observed >= generation),
            reported: match (&change, &image, running) {
                (Some(change), Some(image), Some(running)) => Reported::read(&change.image, image, running),
                _ => Reported::Unclear,
            },
            change,
            image,
            always_pulls: ours.and_then(|ours| ours.image_pull_policy.as_deref()) == Some("Always"),
            replaces: annotation(annotation::REPLACES),
            released_from: annotation(annotation::RELEASED_FROM),
        }
    }

    /// Whether its controller is this PodSet, by UID.
    #[must_use]
    pub fn is_controlled_by(&self, set: &ValidPodSet) -> bool {
        self.controller
            .as_ref()
            .is_some_and(|controller| controller.uid == set.uid)
    }

    /// Whether it has the label of this PodSet.
    #[must_use]
    pub fn is_selected_by(&self, set: &ValidPodSet) -> bool {
        self.label.as_deref() == Some(&*set.name)
    }

    /// Whether it is part of this PodSet.
    #[must_use]
    pub fn belongs_to(&self, set: &ValidPodSet) -> bool {
        self.is_controlled_by(set) && self.is_selected_by(set)
    }

    /// Whether it is neither finished nor being deleted.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        !self.deleting && !matches!(self.phase, Phase::Finished)
    }

    /// Whether its deletion is overdue, because its node is lost or a finalizer blocks it.
    #[must_use]
    pub fn is_overdue(&self, now: i64) -> bool {
        self.overdue_at().is_some_and(|at| at <= now)
    }

    /// Returns when its deletion is overdue, in seconds since 1970.
    #[must_use]
    pub fn overdue_at(&self) -> Option<i64> {
        self.ends_by
            .filter(|_| self.deleting)
            .map(|at| at.saturating_add(OVERDUE_AFTER))
    }

    /// Returns since when it has been ready, unless it may be about to restart.
    #[must_use]
    pub fn serves_since(&self, now: i64) -> Option<i64> {
        self.ready_since.filter(|_| !self.is_updating(now))
    }

    /// Whether it is ready, and its container may have been started with the image in its spec.
    #[must_use]
    pub fn may_serve(&self, now: i64) -> bool {
        self.ready_since.is_some() && !(self.is_updating(now) && self.must_restart())
    }

    /// Returns when it counts as available if it does not change, in seconds since 1970.
    #[must_use]
    pub fn available_at(&self, set: &ValidPodSet, now: i64) -> Option<i64> {
        Some(self.arrived_at()?.max(self.steady_at(set, now)?))
    }

    /// Returns when it has been ready for long enough, with any image.
    ///
    /// Without a readiness probe, `Ready` stays True while a container restarts (kubernetes#91667), so the start of the
    /// container counts as well. Without `minReadySeconds`, a node's clock that is ahead does not make a pod unavailable.
    fn steady_at(&self, set: &ValidPodSet, now: i64) -> Option<i64> {
        self.ready_since?;
        let since = self.started.max(self.ready_since)?;
        let shortest = if self.has_probe { 0 } else { SHORTEST_RUN };
        let is_ahead = since > now.saturating_add(SHORTEST_RUN);
        if set.min_ready == 0 && (self.has_probe || is_ahead) {
            return Some(i64::MIN);
        }
        Some(since.saturating_add(set.min_ready.max(shortest)))
    }

    /// Whether it has been ready for long enough and runs the image in its spec.
    #[must_use]
    pub fn is_available(&self, set: &ValidPodSet, now: i64) -> bool {
        self.available_at(set, now).is_some_and(|at| at <= now)
    }

    /// Whether it is available, or would be if its container was started with the image in its spec, which is in doubt. A
    /// pod in doubt counts neither as serving nor as not serving.
    #[must_use]
    pub fn may_be_available(&self, set: &ValidPodSet, now: i64) -> bool {
        self.may_serve(now) && self.steady_at(set, now).is_some_and(|at| at <= now)
    }

    /// Whether it runs the current template.
    #[must_use]
    pub fn is_updated(&self, set: &ValidPodSet) -> bool {
        self.template.as_deref() == Some(&*set.template)
    }

    /// Whether a change of its image in place is enough for the current template.
    #[must_use]
    pub fn can_be_updated(&self, set: &ValidPodSet) -> bool {
        self.container.is_some()
            && self.shape.as_deref() == Some(&*set.shape)
            // The pull policy depends on the first image and can't be changed.
            && (self.always_pulls || !set.always_pulls)
    }
}

fn sidecar_restarts(pod: &Pod) -> i32 {
    let specs = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = specs
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| &*container.name)
        .collect();
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.init_container_statuses.iter().flatten());
    let restarts = statuses.filter(|status| sidecars.contains(&&*status.name));
    restarts.map(|status| status.restart_count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn live_pod_is_read() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "web-0", "uid": "p1", "resourceVersion": "7", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"appdeploy.dev/podset": "web"},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5", "appdeploy.dev/template-hash": "t",
                    "appdeploy.dev/shape-hash": "s", "appdeploy.dev/updated-from": "containerd://0",
                    "appdeploy.dev/updated-from-image": "nginx:1", "appdeploy.dev/updated-at": "2026-01-01T00:00:05Z"},
                "ownerReferences": [{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet", "name": "web",
                    "uid": "u1", "controller": true}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "nginx"}]},
            "status": {"phase": "Running", "observedGeneration": 1,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}],
                "containerStatuses": [{"name": "app", "image": "docker.io/library/nginx:latest", "imageID": "",
                    "ready": true, "restartCount": 2, "containerID": "containerd://1",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}}}]},
        }))
        .unwrap();
        let created = 1_767_225_600;
        assert_eq!(
            SetPod::read(&pod),
            SetPod {
                name: "web-0".into(),
                uid: "p1".into(),
                controller: Some(Controller {
                    name: "PodSet web".into(),
                    uid: "u1".into()
                }),
                label: Some("web".into()),
                phase: Phase::Running,
                node: Some("n1".into()),
                created,
                ready_since: Some(created + 10),
                deletion_cost: -5,
                restarts: 2,
                template: Some("t".into()),
                shape: Some("s".into()),
                container: Some("containerd://1".into()),
                version: "7".into(),
                image: Some("nginx".into()),
                is_running: true,
                started: Some(created + 9),
                observed: Some(false),
                reported: Reported::New,
                change: Some(ImageChange {
                    container: "containerd://0".into(),
                    image: "nginx:1".into(),
                    at: created + 5,
                }),
                ..SetPod::default()
            }
        );
    }

    /// As for a ReplicaSet.
    #[test]
    fn restarts_are_those_of_the_container_with_most_restarts() {
        let status = |name: &str, restarts: i32| json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": restarts});
        let pod: Pod = serde_json::from_value(json!({
            "spec": {"containers": [{"name": "app"}, {"name": "b"}],
                "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}, {"name": "init"}]},
            "status": {"containerStatuses": [status("app", 2), status("b", 3)],
                "initContainerStatuses": [status("sidecar", 4), status("init", 9)]},
        }))
        .unwrap();
        let pod = SetPod::read(&pod);
        assert_eq!((pod.restarts, pod.sidecar_restarts), (3, 4));
    }

    #[test]
    fn image_of_another_pull_policy_is_not_changed_in_place() {
        let moving = ValidPodSet {
            always_pulls: true,
            ..ValidPodSet::default()
        };
        let same_shape = SetPod {
            shape: Some(String::new()),
            container: Some("c1".into()),
            ..SetPod::default()
        };
        assert!(same_shape.can_be_updated(&ValidPodSet::default()));
        assert!(!same_shape.can_be_updated(&moving), "it would run what its node has");
    }

    #[test]
    fn min_ready_seconds_count_from_the_start_of_the_container() {
        let set = |min_ready| ValidPodSet {
            min_ready,
            ..ValidPodSet::default()
        };
        let pod = |has_probe, started| SetPod {
            ready_since: Some(0),
            started: Some(started),
            has_probe,
            ..SetPod::default()
        };
        let restarted = pod(false, 100);
        assert!(!restarted.is_available(&set(10), 109));
        assert!(restarted.is_available(&set(10), 110));
        assert!(
            !restarted.is_available(&set(0), 103),
            "started at 100.9, it has run for little more than two seconds"
        );
        assert!(restarted.is_available(&set(0), 104));
        assert!(pod(true, 100).is_available(&set(0), 100), "a probe has checked it");
        let not_ready = SetPod {
            ready_since: None,
            ..restarted
        };
        assert!(!not_ready.is_available(&set(0), 200));
    }

    #[test]
    fn clock_of_a_node_that_is_ahead_does_not_matter_without_min_ready_seconds() {
        for has_probe in [true, false] {
            let ahead = SetPod {
                ready_since: Some(700),
                started: Some(690),
                has_probe,
                ..SetPod::default()
            };
            assert!(ahead.is_available(&ValidPodSet::default(), 100), "probe: {has_probe}");
            let ten = ValidPodSet {
                min_ready: 10,
                ..ValidPodSet::default()
            };
            assert!(!ahead.is_available(&ten, 100), "as for a ReplicaSet");
        }
    }

    #[test]
    fn deletion_is_overdue_some_time_after_its_deletion_time() {
        let pod = SetPod {
            deleting: true,
            ends_by: Some(100),
            ..SetPod::default()
        };
        assert!(!pod.is_overdue(129));
        assert!(pod.is_overdue(130));
        assert!(!SetPod { deleting: false, ..pod }.is_overdue(130));
    }
}
