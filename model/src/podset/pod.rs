//! What decides about one pod of a PodSet.

use crd::annotation;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::{Wanted, image};
use crate::desired::CONTAINER;

/// What people give a pod to say how much its deletion costs, compared to the others. Known from ReplicaSet.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod that carries a PodSet's label or controller reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetPod {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// Who controls it.
    pub controller: Option<Controller>,
    /// The PodSet that its label names.
    pub label: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// How far it has come.
    pub phase: Phase,
    /// The node that it was given.
    pub node: Option<String>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Since when it has been ready, in seconds since 1970; `None` while it is not.
    pub ready_since: Option<i64>,
    /// What its deletion costs, compared to others.
    pub deletion_cost: i32,
    /// How often its containers were restarted.
    pub restarts: i32,
    /// The hash of the template that it runs, if it says so.
    pub template: Option<String>,
    /// The hash of what of its template can't be changed in place.
    pub shape: Option<String>,
    /// The container that runs; `None` if there is no container of ours whose image could be changed.
    pub container: Option<String>,
    /// Whether that container is known to run the image that the pod asks for.
    pub runs_its_image: bool,
    /// The container that ran when its image was changed.
    pub updated_from: Option<String>,
    /// Its node asks the registry for its image at each start.
    pub always_pulls: bool,
    /// The UID of the pod whose place it shall take.
    pub replaces: Option<String>,
    /// The UID of the PodSet that has let it go.
    pub released_from: Option<String>,
}

/// Who controls a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Controller {
    /// The kind and the name.
    pub name: String,
    /// The identity.
    pub uid: String,
}

/// How far a pod has come, in the order in which pods are given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Its containers are not all there yet.
    #[default]
    Pending,
    /// Its node has not been heard of.
    Unknown,
    /// It runs.
    Running,
    /// It has ended for good, one way or the other.
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
        Self {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            controller: crate::observed::controller(&pod.metadata).map(|(name, uid)| Controller {
                name,
                uid: uid.to_owned(),
            }),
            label: pod.labels().get(crd::label::PODSET).cloned(),
            deleting: pod.metadata.deletion_timestamp.is_some(),
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
            restarts: containers().map(|c| c.restart_count).sum(),
            template: annotation(annotation::TEMPLATE_HASH),
            shape: annotation(annotation::SHAPE_HASH),
            container: ours.map(|_| running.and_then(|c| c.container_id.clone()).unwrap_or_default()),
            runs_its_image: ours
                .and_then(|ours| ours.image.as_deref())
                .zip(running)
                .is_some_and(|(wanted, running)| image::is_run_by(wanted, running)),
            always_pulls: ours.and_then(|ours| ours.image_pull_policy.as_deref()) == Some("Always"),
            updated_from: annotation(annotation::UPDATED_FROM),
            replaces: annotation(annotation::REPLACES),
            released_from: annotation(annotation::RELEASED_FROM),
        }
    }

    /// Whether it is controlled by this PodSet: this one, and not one of the same name.
    #[must_use]
    pub fn is_controlled_by(&self, set: &Wanted) -> bool {
        self.controller
            .as_ref()
            .is_some_and(|controller| controller.uid == set.uid)
    }

    /// Whether it carries the label of this PodSet.
    #[must_use]
    pub fn is_selected_by(&self, set: &Wanted) -> bool {
        self.label.as_deref() == Some(&*set.name)
    }

    /// Whether it is one of this PodSet's pods.
    #[must_use]
    pub fn belongs_to(&self, set: &Wanted) -> bool {
        self.is_controlled_by(set) && self.is_selected_by(set)
    }

    /// Whether it counts: it has not ended and is not about to.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        !self.deleting && !matches!(self.phase, Phase::Finished)
    }

    /// Whether its image was changed and the container of before still runs.
    ///
    /// A change that was taken back before its node heard of it restarts nothing, nor does one to an image that
    /// somebody has put there by hand: then the container of before is the right one.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        let from = self.updated_from.as_deref().filter(|from| !from.is_empty());
        from.is_some() && from == self.container.as_deref() && !self.runs_its_image
    }

    /// Returns since when it has been ready, unless it is about to restart.
    #[must_use]
    pub fn serves_since(&self) -> Option<i64> {
        self.ready_since.filter(|_| !self.is_updating())
    }

    /// Returns when it counts as available, if nothing happens to it until then.
    #[must_use]
    pub fn available_at(&self, set: &Wanted) -> Option<i64> {
        self.serves_since().map(|since| since + set.min_ready)
    }

    /// Whether it has been ready for long enough.
    #[must_use]
    pub fn is_available(&self, set: &Wanted, now: i64) -> bool {
        self.available_at(set).is_some_and(|at| at <= now)
    }

    /// Whether it runs the current template.
    #[must_use]
    pub fn is_updated(&self, set: &Wanted) -> bool {
        self.template.as_deref() == Some(&*set.template)
    }

    /// Whether a change of its image brings it to the current template.
    #[must_use]
    pub fn can_be_updated(&self, set: &Wanted) -> bool {
        self.container.is_some()
            && self.shape.as_deref() == Some(&*set.shape)
            // When a pod pulls was settled by its first image, and can't be changed.
            && (self.always_pulls || !set.always_pulls)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_live_pod_says_is_read() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "web-0", "uid": "p1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"appdeploy.dev/podset": "web"},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5", "appdeploy.dev/template-hash": "t",
                    "appdeploy.dev/shape-hash": "s", "appdeploy.dev/updated-from": "containerd://1"},
                "ownerReferences": [{"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet", "name": "web",
                    "uid": "u1", "controller": true}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "nginx"}]},
            "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"}],
                "containerStatuses": [{"name": "app", "image": "docker.io/library/nginx:latest", "imageID": "",
                    "ready": true, "restartCount": 2, "containerID": "containerd://1"}]},
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
                runs_its_image: true,
                updated_from: Some("containerd://1".into()),
                ..SetPod::default()
            }
        );
    }

    #[test]
    fn an_update_has_arrived_when_another_container_runs() {
        let pod = |container: &str| SetPod {
            container: Some(container.into()),
            updated_from: Some("c1".into()),
            ready_since: Some(0),
            ..SetPod::default()
        };
        let moving = Wanted {
            always_pulls: true,
            ..Wanted::default()
        };
        let same_shape = SetPod {
            shape: Some(String::new()),
            ..pod("c1")
        };
        assert!(same_shape.can_be_updated(&Wanted::default()));
        assert!(!same_shape.can_be_updated(&moving), "it would run what its node has");
        assert!(pod("c1").is_updating());
        assert!(!pod("c1").is_available(&Wanted::default(), 9));
        assert!(!pod("c2").is_updating());
        assert!(pod("c2").is_available(&Wanted::default(), 9));
        let waiting = SetPod {
            container: Some(String::new()),
            updated_from: Some(String::new()),
            ..SetPod::default()
        };
        assert!(
            !waiting.is_updating(),
            "nothing ran before, so what runs next is the new image"
        );
    }

    /// Who sets another image and at once the old one again, or tries an image in one pod by hand before wanting it in
    /// all: the node starts no other container.
    #[test]
    fn a_restart_that_does_not_come_is_not_waited_for() {
        let pod = SetPod {
            container: Some("c1".into()),
            updated_from: Some("c1".into()),
            runs_its_image: true,
            ready_since: Some(0),
            ..SetPod::default()
        };
        assert!(!pod.is_updating());
        assert!(pod.is_available(&Wanted::default(), 9));
    }
}
