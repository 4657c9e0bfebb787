//! Additional requests for apps that are not ready: is the operator running, and what did a container log before it crashed?

use futures::AsyncReadExt as _;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};
use model::children::DEPLOYMENT;

use crate::cluster::connection::Cluster;
use crate::diagnosis::queue::used;
use crate::diagnosis::request_path::PathContext;
use crate::installation::operator;
use crate::resource::children::Children;
use crate::resource::custom_resource::CustomResource;
use crate::resource::workload::Workload;

/// The most bytes of a log that are read.
const MOST: u64 = 1024 * 1024;
/// After how many seconds a watch reads the queues of an app again.
const QUEUES_EVERY: i64 = 10;

/// The additional requests, none for most apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The namespace of an app that no operator has seen.
    lost: Option<String>,
    /// The namespace of an app with an outdated status, or of a queue whose deletion waits for the operator.
    behind: Option<String>,
    /// What crashed, where its last words are not known.
    crashed: Option<Crash>,
    /// The queues that the spec names.
    queues: Option<Queues>,
}

/// The queues of an app or a pod set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Queues {
    namespace: String,
    names: Vec<String>,
    /// The state of the app: when it changes, the queues are read again.
    reason: String,
    /// The time in units of [`QUEUES_EVERY`]: a watch reads the depths again.
    period: i64,
}

/// A container that crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Crash {
    namespace: String,
    pod: String,
    container: String,
    /// How often: each time it has other last words.
    restarts: i32,
}

impl ProbeRequest {
    /// Returns the additional requests for one.
    pub fn about(workload: &Workload, children: &Children, now: Timestamp) -> Self {
        let namespace = || workload.namespace().to_owned();
        Self {
            lost: workload.is_overlooked(now).then(namespace),
            behind: is_behind(workload, children).then(namespace),
            crashed: crashed(workload, children.pods.as_deref().unwrap_or_default()),
            queues: queues(workload, now),
        }
    }

    /// Returns the additional requests for several.
    pub fn about_all(all: &[CustomResource], now: Timestamp) -> Self {
        let lost = all.iter().find(|one| one.summary().is_overlooked(now));
        let behind = all.iter().find(|one| one.summary().is_deletion_overlooked(now));
        Self {
            lost: lost.map(|one| one.namespace().to_owned()),
            behind: behind.map(|one| one.namespace().to_owned()),
            ..Self::default()
        }
    }

    /// Returns the additional requests for these and for others.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            lost: self.lost.or(other.lost),
            behind: self.behind.or(other.behind),
            crashed: self.crashed.or(other.crashed),
            queues: self.queues.or(other.queues),
        }
    }
}

/// Sends the requests.
pub async fn fetch(cluster: &Cluster, question: &ProbeRequest) -> PathContext {
    let now = Timestamp::now();
    let absence = match (&question.lost, &question.behind) {
        (Some(lost), _) => operator::find(cluster).await.absence(Some(lost), now),
        (None, Some(behind)) => operator::find(cluster).await.fault(Some(behind), now),
        (None, None) => None,
    };
    let last_words = match &question.crashed {
        Some(crash) => last_words(cluster, crash).await,
        None => None,
    };
    let queues = match &question.queues {
        Some(queues) => used::fetch(cluster, &queues.namespace, &queues.names).await,
        None => Vec::new(),
    };
    PathContext {
        absence,
        last_words,
        queues,
    }
}

fn queues(workload: &Workload, now: Timestamp) -> Option<Queues> {
    let names: Vec<String> = workload.pod().queues.iter().map(|queue| queue.name.clone()).collect();
    (!names.is_empty()).then(|| Queues {
        namespace: workload.namespace().to_owned(),
        names,
        reason: workload.reason(),
        period: now.as_second() / QUEUES_EVERY,
    })
}

/// Whether the status is outdated. A running operator updates it within a moment.
fn is_behind(workload: &Workload, children: &Children) -> bool {
    if workload.state().observed.is_none() {
        return false;
    }
    let deployment: Option<Deployment> = children.first(&DEPLOYMENT);
    let ready = deployment.map(|one| {
        one.status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0)
    });
    !workload.is_observed() || ready.is_some_and(|ready| ready != workload.state().ready)
}

/// Returns the container that crashed most, where the cause does not have its last words.
fn crashed(workload: &Workload, pods: &[Pod]) -> Option<Crash> {
    let cause = workload.state().cause?;
    if cause.reason != "CrashLoop" || cause.message.contains("last words") {
        return None;
    }
    // An init container or a sidecar may crash, too.
    let containers = pods.iter().flat_map(|pod| {
        let statuses = pod.status.iter().flat_map(|status| {
            let inits = status.init_container_statuses.iter().flatten();
            inits.chain(status.container_statuses.iter().flatten())
        });
        statuses.map(|container| (container.restart_count, pod.name_any(), &container.name))
    });
    let (restarts, pod, container) = containers.max()?;
    (restarts > 0).then(|| Crash {
        namespace: workload.namespace().to_owned(),
        pod,
        container: container.clone(),
        restarts,
    })
}

async fn last_words(cluster: &Cluster, crash: &Crash) -> Option<String> {
    let params = LogParams {
        container: Some(crash.container.clone()),
        previous: true,
        tail_lines: Some(10),
        ..LogParams::default()
    };
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &crash.namespace);
    let read = async {
        let log = api.log_stream(&crash.pod, &params).await?;
        let mut bytes = Vec::new();
        let read = Box::pin(log).take(MOST).read_to_end(&mut bytes).await;
        read.map(|_| bytes).map_err(kube::Error::ReadEvents)
    };
    // Without the right to read logs, or after the node has removed this one, the rest of the page is shown.
    let bytes = cluster.call(read).await.ok()?;
    model::pod::last_line(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::observe::status::list::tests::{app, cond};
    use crate::resource::queue::tests::{broken, queue};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn log_is_read_of_the_container_that_crashed() {
        let crashing = app(
            "blog",
            &json!({"image": "nginx"}),
            &json!({"conditions": [cond("Ready", "False", "CrashLoop", "")],
                "cause": {"reason": "CrashLoop", "message": "the application ends by itself, with exit code 1"}}),
        );
        let pod = |name: &str, containers: &[(&str, i32)]| -> Pod {
            let statuses: Vec<_> = containers
                .iter()
                .map(|(name, restarts)| json!({"name": name, "restartCount": restarts, "ready": false, "image": "", "imageID": ""}))
                .collect();
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {"containerStatuses": statuses}}))
                .unwrap()
        };
        let found = crashed(
            &crashing,
            &[
                pod("blog-1", &[("app", 2), ("proxy", 0)]),
                pod("blog-2", &[("app", 1), ("proxy", 0)]),
            ],
        );
        let crash = found.unwrap();
        assert_eq!((&*crash.pod, &*crash.container, crash.restarts), ("blog-1", "app", 2));
        assert_eq!(crashed(&crashing, &[pod("blog-1", &[("app", 0)])]), None);
        let mut migrating: Pod = pod("blog-1", &[("app", 0)]);
        let status = migrating.status.as_mut().unwrap();
        status.init_container_statuses = pod("", &[("migrate", 3)]).status.unwrap().container_statuses;
        assert_eq!(&*crashed(&crashing, &[migrating]).unwrap().container, "migrate");
    }

    #[test]
    fn operator_is_looked_for_if_a_deletion_waits_for_it() {
        let asked = |status: &serde_json::Value, seconds: i64| {
            let mut orders = queue("orders", &json!({}), status);
            let deleted = "2026-06-01T00:00:00Z".parse::<Timestamp>().unwrap();
            orders.metadata.deletion_timestamp = Some(Time(deleted));
            let now = Timestamp::from_second(deleted.as_second() + seconds).unwrap();
            ProbeRequest::about_all(&[CustomResource::Queue(orders)], now)
        };
        let seen = json!({"observedGeneration": 1});
        assert_eq!(asked(&seen, 60).behind.as_deref(), Some("default"));
        assert_eq!(asked(&seen, 5), ProbeRequest::default());
        let cause = broken("CredentialsMissing", "no Secret", "");
        assert_eq!(asked(&cause, 60), ProbeRequest::default(), "it reports why");
    }
}
