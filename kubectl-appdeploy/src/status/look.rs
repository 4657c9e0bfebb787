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

/// Asks what the status does not tell.
pub async fn around(cluster: &Cluster, workload: &Workload, children: &Children, now: Timestamp) -> Asked {
    let absence = match absence(cluster, std::slice::from_ref(workload), now).await {
        Some(absence) => Some(absence),
        None if is_behind(workload, children) => operator::look(cluster).await.fault(Some(workload.namespace()), now),
        None => None,
    };
    Asked {
        absence,
        last_words: last_words(cluster, workload, children).await,
    }
}

/// Asks for the operator only when one looks as if there were none: the usual page costs one request less.
pub async fn absence(cluster: &Cluster, all: &[Workload], now: Timestamp) -> Option<(String, String)> {
    let lost = all.iter().find(|one| one.is_overlooked(now))?;
    operator::look(cluster).await.absence(Some(lost.namespace()), now)
}

/// Whether the status is about what was, which an operator that runs mends within a blink.
fn is_behind(workload: &Workload, children: &Children) -> bool {
    if workload.state().observed.is_some() && !workload.is_observed() {
        return true;
    }
    let deployment = children.deployments.iter().flatten().next();
    let ready = deployment.map(|one| {
        one.status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0)
    });
    ready.is_some_and(|ready| ready != workload.state().ready)
}

/// Returns the last line of a container that crashed, where the cause does not have it.
async fn last_words(cluster: &Cluster, workload: &Workload, children: &Children) -> Option<String> {
    let cause = workload.state().cause?;
    if cause.reason != "CrashLoop" || cause.message.contains("last words") {
        return None;
    }
    let crashed = children.pods.iter().flatten().filter(|one| pod::restarts(one) > 0);
    let pod = crashed.max_by_key(|one| pod::restarts(one))?;
    let params = LogParams {
        previous: true,
        tail_lines: Some(10),
        ..LogParams::default()
    };
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    // Whoever may not read logs, or comes when the node has thrown it away, is told the rest.
    let log = cluster.call(api.logs(&pod.name_any(), &params)).await.ok()?;
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
