//! Orphans the old pods first, and deletes them last.

use crd::label;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::{Api, ResourceExt};
use model::children::DEPLOYMENT;
use serde_json::json;

use super::plan::Plan;
use super::snapshot::{Snapshot, is_left};
use super::step;
use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::wait::{self, Deadline};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::resource::children;
use crate::resource::live_children;
use crate::terminal::ui::Ui;

/// Takes the Deployment away whose name the app's needs, and leaves its pods with its ReplicaSets, which keep them. Those
/// are marked before, so that they are found again.
pub async fn release(cluster: &Cluster, found: &Snapshot, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let live = found.live.of(&DEPLOYMENT);
    let Some(old) = live.filter(|live| found.other.is_none() && !live_children::is_of(live, found.uid())) else {
        // A command that was interrupted may not have come to say that the name is free.
        if found.other.is_none() && found.own().is_none() {
            step::call_the_operator(cluster, &plan.name).await?;
        }
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
    let deployments = live_children::api(cluster, &DEPLOYMENT, &cluster.namespace);
    let params = delete(uid, PropagationPolicy::Orphan);
    cluster.call(deployments.delete(&plan.name, &params)).await?;
    ui.progress(&format!(
        "{}: waiting until the old Deployment is deleted; its pods serve",
        plan.name
    ));
    match wait::gone(cluster, deployments, &plan.name, Some(uid), deadline, ui).await? {
        None => step::call_the_operator(cluster, &plan.name).await,
        Some(_) => Err(late(plan, deadline, "the former Deployment is not gone")),
    }
}

/// Removes the old pods, to which no request is led any more.
pub async fn remove(cluster: &Cluster, found: &Snapshot, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    ui.progress(&format!("{}: waiting until the old pods are deleted", plan.name));
    let late = || late(plan, deadline, "the old pods are not gone");
    if let Some(other) = &found.other {
        let word = |field: &str| other["metadata"][field].as_str().unwrap_or_default();
        let deployments = live_children::api(cluster, &DEPLOYMENT, &cluster.namespace);
        let params = delete(word("uid"), PropagationPolicy::Foreground);
        cluster.call(deployments.delete(word("name"), &params)).await?;
        let left = wait::gone(cluster, deployments, word("name"), Some(word("uid")), deadline, ui).await?;
        return left.map_or(Ok(()), |_| Err(late()));
    }
    let sets = sets(cluster);
    let marked = ListParams::default().labels(&format!("{}={}", label::REPLACED_BY, plan.name));
    let marked = cluster.call(sets.list(&marked)).await?.items;
    let marked: Vec<ReplicaSet> = marked.into_iter().filter(|set| is_left(set, &plan.name)).collect();
    for set in &marked {
        let params = delete(
            set.metadata.uid.as_deref().unwrap_or_default(),
            PropagationPolicy::Foreground,
        );
        cluster.call(sets.delete(&set.name_any(), &params)).await?;
    }
    for set in &marked {
        let uid = set.metadata.uid.as_deref();
        if wait::gone(cluster, sets.clone(), &set.name_any(), uid, deadline, ui)
            .await?
            .is_some()
        {
            return Err(late());
        }
    }
    Ok(())
}

fn sets(cluster: &Cluster) -> Api<ReplicaSet> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

fn delete(uid: &str, policy: PropagationPolicy) -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(policy),
        // Not another object that has taken its name in the meantime.
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// Returns the error for a timeout: the same command continues.
pub fn late(plan: &Plan, deadline: Deadline, what: &str) -> Error {
    Error::new(ErrorKind::TimedOut, format!("{what} after {}", deadline.text()))
        .next(plan.again.clone().remark("continues"))
}
