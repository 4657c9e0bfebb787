//! Waits for the rollout of the operator, and explains from its pods why it is not ready.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use model::command;

use crate::cluster::connection::Cluster;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::watch::{self, Connection, Watched};
use crate::error::{Error, Kind, Result};
use crate::installation::operator;
use crate::resource::pod::{self, PodProblem};
use crate::terminal::ui::Ui;
use model::diagnose::Reason;

/// The state of the operator's Deployment.
#[derive(Default)]
pub struct Progress {
    /// Its Deployment.
    pub deployment: Option<Deployment>,
    /// Its pods.
    pub pods: Vec<Pod>,
}

/// An event of either watch.
enum Update {
    Deployment(Option<Deployment>),
    Pod(Event<Pod>),
}

/// The state of the operator's rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// All of it runs, in the version that is wanted.
    Ready,
    /// It may come; this is what it is busy with.
    Waiting(String),
    /// It does not come by itself.
    Failed(Error),
}

/// Waits until the applied version of the operator runs.
pub async fn wait(cluster: &Cluster, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let namespace = crd::OPERATOR_NAMESPACE;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let mine = watcher::Config::default().labels(&format!("app.kubernetes.io/name={}", operator::NAME));
    let watched = watch::follow_all(cluster, pods, mine).filter_map(|next| {
        // A user without the right to watch pods still sees the Deployment.
        std::future::ready(next.ok().map(|change| Ok(change.map(Update::Pod))))
    });
    let rollout = watch::follow_one(cluster, deployments, operator::NAME)
        .map(|next| next.map(|change| change.map(Update::Deployment)));
    let mut news = Watched::new(stream::select(rollout, watched).boxed(), Connection::after_a_change());
    let mut seen = Progress::default();
    let ready = wait::until(&mut news, deadline, ui, async |update, ui| {
        match update {
            Update::Deployment(deployment) => seen.deployment = deployment,
            Update::Pod(event) => seen.take(event),
        }
        match seen.state() {
            RolloutState::Ready => return Ok(Some(())),
            RolloutState::Failed(error) => return Err(error),
            RolloutState::Waiting(busy) if busy.is_empty() => {}
            RolloutState::Waiting(busy) => ui.progress(&format!("waiting for the operator: {busy}")),
        }
        Ok(None)
    });
    if ready.await?.is_none() {
        return Err(seen.timed_out(deadline));
    }
    ui.clear_progress();
    Ok(())
}

impl Progress {
    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.pods.clear(),
            Event::InitDone => {}
            Event::InitApply(pod) | Event::Apply(pod) => {
                self.pods.retain(|known| known.name_any() != pod.name_any());
                self.pods.push(pod);
            }
            Event::Delete(pod) => self.pods.retain(|known| known.name_any() != pod.name_any()),
        }
    }

    /// Returns the state of the rollout.
    pub fn state(&self) -> RolloutState {
        let Some(deployment) = &self.deployment else {
            return RolloutState::Waiting(String::new());
        };
        let status = deployment.status.clone().unwrap_or_default();
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let count = |n: Option<i32>| n.unwrap_or(0);
        let seen = status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0);
        if seen
            && count(status.updated_replicas) >= wanted
            && count(status.available_replicas) >= wanted
            && count(status.replicas) <= wanted
        {
            return RolloutState::Ready;
        }
        if let Some(trouble) = self.pod_problem() {
            if trouble.terminal {
                return RolloutState::Failed(with_problem(
                    Error::new(Kind::Stalled, "the operator cannot start"),
                    &trouble,
                ));
            }
            return RolloutState::Waiting(trouble.message);
        }
        if let Some(refused) = self.refused() {
            return RolloutState::Waiting(refused);
        }
        let word = self
            .pods
            .iter()
            .map(pod::word)
            .next_back()
            .unwrap_or_else(|| "no pod yet".to_owned());
        RolloutState::Waiting(format!(
            "{}/{wanted} available, {word}",
            count(status.available_replicas)
        ))
    }

    /// The problem of a pod with the desired image. Pods with an older image are ignored.
    fn pod_problem(&self) -> Option<PodProblem> {
        let wanted = self.deployment.as_ref().and_then(operator::image);
        let current = self.pods.iter().filter(|pod| {
            let image = pod
                .spec
                .as_ref()
                .and_then(|spec| spec.containers.first())
                .and_then(|container| container.image.as_deref());
            image == wanted && pod.metadata.deletion_timestamp.is_none()
        });
        current
            .filter_map(|pod| pod::pod_problem(pod, None))
            .max_by_key(|trouble| trouble.terminal)
    }

    /// Why Kubernetes does not even make a pod: a quota, a policy.
    fn refused(&self) -> Option<String> {
        let status = self.deployment.as_ref()?.status.as_ref()?;
        let conditions = status.conditions.iter().flatten();
        let failure = conditions
            .into_iter()
            .find(|c| c.type_ == "ReplicaFailure" && c.status == "True")?;
        failure.message.clone()
    }

    fn timed_out(&self, deadline: Deadline) -> Error {
        self.explain(Error::new(
            Kind::TimedOut,
            format!("the operator is not running after {}", deadline.text()),
        ))
    }

    /// Adds why it does not run, as far as that can be seen, and where to look.
    pub fn explain(&self, error: Error) -> Error {
        let namespace = crd::OPERATOR_NAMESPACE;
        if let Some(trouble) = self.pod_problem() {
            return with_problem(error, &trouble);
        }
        if let Some(refused) = self.refused() {
            return error
                .why(refused)
                .next(command!("kubectl -n {} describe replicasets", namespace));
        }
        match self.pods.last() {
            // The reason is in its log, which the kubelet does not report.
            Some(pod) if pod::word(pod) == "Running" => error
                .why(format!("pod {} runs and is not ready", pod.name_any()))
                .next(command!("kubectl -n {} logs {} --tail=20", namespace, pod.name_any())),
            Some(pod) => error
                .why(format!("pod {} is {}", pod.name_any(), pod::word(pod)))
                .next(command!("kubectl -n {} describe pod {}", namespace, pod.name_any())),
            None => error
                .why("it has no pods: is the kube-controller-manager running?")
                .next(command!(
                    "kubectl -n {} describe deployment {}",
                    namespace,
                    operator::NAME
                )),
        }
    }
}

fn with_problem(error: Error, trouble: &PodProblem) -> Error {
    let namespace = crd::OPERATOR_NAMESPACE;
    let next = match trouble.reason {
        Reason::CrashLoop | Reason::OutOfMemory => command!("kubectl -n {} logs {} --previous", namespace, trouble.pod),
        Reason::ImageNotFound | Reason::InvalidImageName | Reason::ImagePullDenied | Reason::ImagePullFailed => {
            "kubectl appdeploy install --image=IMAGE  (one that the nodes can pull)".into()
        }
        _ => command!("kubectl -n {} describe pod {}", namespace, trouble.pod),
    };
    let error = error
        .why(format!("pod {}: {}", trouble.pod, trouble.message))
        .next(next);
    if trouble.reason != Reason::ImagePullDenied {
        return error;
    }
    // The ServiceAccount passes it on to pods that are made after it.
    error
        .next(command!(
            "kubectl -n {} create secret docker-registry regcred \
             --docker-server=REGISTRY --docker-username=USER --docker-password=PASSWORD  (or give the nodes a password)",
            namespace
        ))
        .next(command!(
            "kubectl -n {} patch serviceaccount {} -p {}",
            namespace,
            operator::NAME,
            r#"{"imagePullSecrets":[{"name":"regcred"}]}"#
        ))
        .next(command!(
            "kubectl -n {} rollout restart deployment {}",
            namespace,
            operator::NAME
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use serde_json::json;
    use std::time::Duration;

    fn seen(available: i32, waiting: Option<(&str, &str)>) -> Progress {
        let template = json!({"spec": {"containers": [{"name": "operator", "image": "op:v1"}]}});
        let deployment = json!({"metadata": {"generation": 2}, "spec": {"replicas": 1, "selector": {}, "template": template},
            "status": {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available}});
        let pod = waiting.map(|(reason, message)| {
            serde_json::from_value(json!({"metadata": {"name": "op-1"}, "spec": template["spec"], "status": {"phase": "Pending", "containerStatuses": [
                {"name": "operator", "image": "op:v1", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]}}))
            .unwrap()
        });
        Progress {
            deployment: Some(serde_json::from_value(deployment).unwrap()),
            pods: pod.into_iter().collect(),
        }
    }

    #[test]
    fn available_deployment_is_ready() {
        assert_eq!(seen(1, None).state(), RolloutState::Ready);
        assert_eq!(
            seen(0, None).state(),
            RolloutState::Waiting("0/1 available, no pod yet".to_owned())
        );
    }

    #[test]
    fn missing_image_ends_the_wait() {
        let RolloutState::Failed(error) = seen(
            0,
            Some(("ImagePullBackOff", "Back-off pulling image \"op:v1\": not found")),
        )
        .state() else {
            panic!()
        };
        insta::assert_snapshot!(error.text(&RenderOptions::default()), @r#"
        error: the operator cannot start
          why:  pod op-1: image op:v1 was not found
          next: kubectl appdeploy install --image=IMAGE
                (one that the nodes can pull)
        "#);
        assert_eq!(error.kind(), Kind::Stalled);
    }

    #[test]
    fn unreachable_registry_is_waited_for_and_reported_after_the_timeout() {
        let seen = seen(0, Some(("ErrImagePull", "dial tcp: i/o timeout")));
        assert_eq!(
            seen.state(),
            RolloutState::Waiting("the image can't be pulled: op:v1: i/o timeout".to_owned())
        );
        insta::assert_snapshot!(seen.timed_out(Deadline::after(Duration::from_secs(180))).text(&RenderOptions::default()), @r"
        error: the operator is not running after 3m
          why:  pod op-1: the image can't be pulled: op:v1: i/o timeout
          next: kubectl appdeploy install --image=IMAGE
                (one that the nodes can pull)
        ");
    }
}
