//! Orphans the old pods at the start of an adoption, and deletes them at its end.

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

/// Deletes the Deployment whose name the app needs, and orphans its ReplicaSets, which keep the pods. The ReplicaSets are labeled
/// first, so that [`remove`] finds them.
pub async fn release(cluster: &Cluster, found: &Snapshot, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let live = found.live.of(&DEPLOYMENT);
    let Some(old) = live.filter(|live| found.other.is_none() && !live_children::is_of(live, found.uid())) else {
        // An interrupted command may not have triggered the reconcile after the deletion.
        if found.other.is_none() && found.own().is_none() {
            step::trigger_reconcile(cluster, &plan.name).await?;
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
    match wait::until_deleted(cluster, deployments, &plan.name, Some(uid), deadline, ui).await? {
        None => step::trigger_reconcile(cluster, &plan.name).await,
        Some(_) => Err(timed_out(plan, deadline, "the old Deployment was not deleted")),
    }
}

/// Deletes the old pods, which receive no more requests.
pub async fn remove(cluster: &Cluster, found: &Snapshot, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    ui.progress(&format!("{}: waiting until the old pods are deleted", plan.name));
    let timed_out = || timed_out(plan, deadline, "the old pods were not deleted");
    if let Some(other) = &found.other {
        let word = |field: &str| other["metadata"][field].as_str().unwrap_or_default();
        let deployments = live_children::api(cluster, &DEPLOYMENT, &cluster.namespace);
        let params = delete(word("uid"), PropagationPolicy::Foreground);
        cluster.call(deployments.delete(word("name"), &params)).await?;
        let left = wait::until_deleted(cluster, deployments, word("name"), Some(word("uid")), deadline, ui).await?;
        return left.map_or(Ok(()), |_| Err(timed_out()));
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
        if wait::until_deleted(cluster, sets.clone(), &set.name_any(), uid, deadline, ui)
            .await?
            .is_some()
        {
            return Err(timed_out());
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
        // Another object may have been created with the same name.
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// Returns the error for a timeout: the same command continues.
pub fn timed_out(plan: &Plan, deadline: Deadline, what: &str) -> Error {
    Error::new(ErrorKind::TimedOut, format!("{what} after {}", deadline.text()))
        .next(plan.again.clone().remark("continues"))
}
