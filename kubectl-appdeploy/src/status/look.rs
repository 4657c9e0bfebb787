//! The requests that only an app in trouble costs: is its operator there, and what did it say before it crashed?

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt as _};

use crate::children::Children;
use crate::connection::Cluster;
use crate::operator;
use crate::pod;
use crate::route::Asked;
use crate::ui::clean;
use crate::workload::Workload;

/// How much of a line is shown, in characters.
const WORDS: usize = 200;

/// What there is to ask, which is nothing for most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The namespace of one that no operator has seen.
    lost: Option<String>,
    /// The namespace of one whose status is about what was.
    behind: Option<String>,
    /// A pod that crashed so many times, with its namespace, where its last words are not known.
    crashed: Option<(String, String, i32)>,
}

impl Question {
    /// Returns what there is to ask about one.
    pub fn about(workload: &Workload, children: &Children, now: Timestamp) -> Self {
        let namespace = || workload.namespace().to_owned();
        Self {
            lost: workload.is_overlooked(now).then(namespace),
            behind: is_behind(workload, children).then(namespace),
            crashed: crashed(workload, children),
        }
    }

    /// Returns what there is to ask about several.
    pub fn about_all(all: &[Workload], now: Timestamp) -> Self {
        let lost = all.iter().find(|one| one.is_overlooked(now));
        Self {
            lost: lost.map(|one| one.namespace().to_owned()),
            ..Self::default()
        }
    }
}

/// Asks.
pub async fn answer(cluster: &Cluster, question: &Question) -> Asked {
    let now = Timestamp::now();
    let absence = match (&question.lost, &question.behind) {
        (Some(lost), _) => operator::look(cluster).await.absence(Some(lost), now),
        (None, Some(behind)) => operator::look(cluster).await.fault(Some(behind), now),
        (None, None) => None,
    };
    let last_words = match &question.crashed {
        Some((namespace, pod, _)) => last_words(cluster, namespace, pod).await,
        None => None,
    };
    Asked { absence, last_words }
}

/// Whether the status is about what was, which an operator that runs mends within a blink.
fn is_behind(workload: &Workload, children: &Children) -> bool {
    if workload.state().observed.is_none() {
        return false;
    }
    let deployment = children.deployments.iter().flatten().next();
    let ready = deployment.map(|one| {
        one.status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0)
    });
    !workload.is_observed() || ready.is_some_and(|ready| ready != workload.state().ready)
}

/// Returns the pod that crashed most, where the cause does not have its last words.
fn crashed(workload: &Workload, children: &Children) -> Option<(String, String, i32)> {
    let cause = workload.state().cause?;
    if cause.reason != "CrashLoop" || cause.message.contains("last words") {
        return None;
    }
    let pods = children.pods.iter().flatten();
    let (restarts, pod) = pods.map(|one| (pod::restarts(one), one.name_any())).max()?;
    (restarts > 0).then(|| (workload.namespace().to_owned(), pod, restarts))
}

async fn last_words(cluster: &Cluster, namespace: &str, pod: &str) -> Option<String> {
    let params = LogParams {
        previous: true,
        tail_lines: Some(10),
        ..LogParams::default()
    };
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    // Whoever may not read logs, or comes when the node has thrown it away, is told the rest.
    let log = cluster.call(api.logs(pod, &params)).await.ok()?;
    last_line(&log)
}

/// Returns the last line that says anything.
fn last_line(log: &str) -> Option<String> {
    let mut lines = log.lines().map(|line| clean(line).trim().to_owned());
    let line = lines.rfind(|line| !line.is_empty())?;
    Some(if line.chars().count() > WORDS {
        line.chars().take(WORDS - 1).chain(['…']).collect()
    } else {
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_last_line_that_says_anything() {
        assert_eq!(
            last_line("starting\nno such table: users\r\n\n  \n").as_deref(),
            Some("no such table: users")
        );
        assert_eq!(last_line(" \n"), None);
        let long = last_line(&"ä".repeat(300)).unwrap();
        assert_eq!(long.chars().count(), 200);
        assert!(long.ends_with('…'));
    }
}
