//! The pods of before: they are let go of, and go at last.

use std::collections::BTreeSet;
use std::time::Duration;

use crd::label;
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use model::ChildKind;
use serde_json::json;

use super::found::Found;
use super::plan::Plan;
use crate::connection::{Cluster, MANAGER};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::ui::Ui;
use crate::wait::{self, Deadline, Known};
use crate::{children, diff};

/// How long the proxies of nodes and the ingress controller may take to hear where requests go. Nothing says when they
/// have.
const PROXIES_LISTEN: Duration = Duration::from_secs(5);

/// Takes the Deployment away whose name the app's needs, and leaves its pods with its ReplicaSets, which keep them. Those
/// are marked before, so that they are found again.
pub async fn release(cluster: &Cluster, found: &Found, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let live = found.live.of(ChildKind::Deployment);
    let Some(old) = live.filter(|live| found.other.is_none() && !diff::is_of(live, found.uid())) else {
        return Ok(());
    };
    let uid = old["metadata"]["uid"].as_str().unwrap_or_default();
    let sets = sets(cluster);
    let all = cluster.call(sets.list(&ListParams::default())).await?;
    let marks = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    for set in all.items.iter().filter(|set| children::is_of(*set, Some(uid))) {
        let patch = json!({"metadata": {"uid": set.uid(), "labels": {label::REPLACED_BY: plan.name}}});
        cluster
            .call(sets.patch(&set.name_any(), &marks, &Patch::Merge(&patch)))
            .await?;
    }
    let deployments = diff::api(cluster, ChildKind::Deployment, &cluster.namespace);
    let params = delete(uid, PropagationPolicy::Orphan);
    cluster.call(deployments.delete(&plan.name, &params)).await?;
    ui.progress(&format!(
        "{}: waiting until the former Deployment is gone; its pods serve",
        plan.name
    ));
    match wait::gone(cluster, deployments, &plan.name, Some(uid), deadline).await? {
        None => Ok(()),
        Some(_) => Err(late(cluster, plan, deadline, "the former Deployment is not gone")),
    }
}

/// Removes the old pods, when no request is led to them any more.
pub async fn remove(cluster: &Cluster, found: &Found, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    if found.live.of(ChildKind::Service).is_some() {
        ui.progress(&format!("{}: waiting until requests go to the new pods", plan.name));
        let moved = deadline.bound(until_moved(cluster, plan)).await;
        moved.ok_or_else(|| late(cluster, plan, deadline, "requests still go to the old pods"))??;
        tokio::time::sleep(PROXIES_LISTEN).await;
    }
    ui.progress(&format!("{}: waiting until the old pods are gone", plan.name));
    let late = || late(cluster, plan, deadline, "the old pods are not gone");
    if let Some(other) = &found.other {
        let word = |field: &str| other["metadata"][field].as_str().unwrap_or_default();
        let deployments = diff::api(cluster, ChildKind::Deployment, &cluster.namespace);
        let params = delete(word("uid"), PropagationPolicy::Foreground);
        cluster.call(deployments.delete(word("name"), &params)).await?;
        let left = wait::gone(cluster, deployments, word("name"), Some(word("uid")), deadline).await?;
        return left.map_or(Ok(()), |_| Err(late()));
    }
    let sets = sets(cluster);
    let marked = ListParams::default().labels(&format!("{}={}", label::REPLACED_BY, plan.name));
    let marked = cluster.call(sets.list(&marked)).await?;
    for set in &marked.items {
        let params = delete(
            set.metadata.uid.as_deref().unwrap_or_default(),
            PropagationPolicy::Foreground,
        );
        cluster.call(sets.delete(&set.name_any(), &params)).await?;
    }
    for set in &marked.items {
        let uid = set.metadata.uid.as_deref();
        if wait::gone(cluster, sets.clone(), &set.name_any(), uid, deadline)
            .await?
            .is_some()
        {
            return Err(late());
        }
    }
    Ok(())
}

/// Waits until the Service leads to the app's pods and to no others.
async fn until_moved(cluster: &Cluster, plan: &Plan) -> Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let own = ListParams::default().labels(&cluster.kind.pod_selector(&plan.name));
    let config = watcher::Config::default().labels(&format!("kubernetes.io/service-name={}", plan.name));
    let mut changes = wait::watch(cluster, slices, config);
    let mut known = Known::default();
    while let Some(event) = changes.next().await {
        known.take(event?);
        if !known.is_complete() {
            continue;
        }
        let own = cluster.call(pods.list(&own)).await?;
        let own: BTreeSet<String> = own.items.iter().map(ResourceExt::name_any).collect();
        if has_moved(known.all(), &own, plan.manifest["spec"]["replicas"] != 0) {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether all endpoints are of these pods, and at least one of them is ready where there shall be any.
fn has_moved<'a>(slices: impl Iterator<Item = &'a EndpointSlice>, own: &BTreeSet<String>, some: bool) -> bool {
    let mut ready = 0;
    for endpoint in slices.flat_map(|slice| &slice.endpoints) {
        let pod = endpoint.target_ref.as_ref().and_then(|target| target.name.as_ref());
        if !pod.is_some_and(|pod| own.contains(pod)) {
            return false;
        }
        let is_ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        ready += usize::from(is_ready == Some(true));
    }
    ready > 0 || !some
}

fn sets(cluster: &Cluster) -> Api<ReplicaSet> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

fn delete(uid: &str, policy: PropagationPolicy) -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(policy),
        // The one that was looked at, not another that took its name meanwhile.
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

fn late(cluster: &Cluster, plan: &Plan, deadline: Deadline, what: &str) -> Error {
    Error::new(ErrorKind::TimedOut, format!("{what} after {}", deadline.text())).next(format!(
        "go on: {} adopt {}{}",
        cluster.words().command,
        plan.name,
        cluster.flag()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn requests_have_moved_when_no_endpoint_is_left_that_is_not_ours() {
        let slice = |pods: &[(&str, bool)]| -> EndpointSlice {
            let endpoints: Vec<Value> = pods
                .iter()
                .map(|(pod, ready)| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}}))
                .collect();
            serde_json::from_value(json!({"addressType": "IPv4", "endpoints": endpoints})).unwrap()
        };
        let own = BTreeSet::from(["new-0".to_owned(), "new-1".to_owned()]);
        let moved = |slices: &[EndpointSlice]| has_moved(slices.iter(), &own, true);
        assert!(moved(&[slice(&[("new-0", true), ("new-1", false)])]));
        assert!(!moved(&[slice(&[("new-0", true)]), slice(&[("old-0", false)])]));
        assert!(!moved(&[slice(&[("new-0", false)])]));
        assert!(!moved(&[]));
        assert!(
            has_moved([].into_iter(), &own, false),
            "an app that is stopped has none"
        );
    }
}
