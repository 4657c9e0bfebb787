//! The writes of an adoption, and what is waited for between them.

use crd::AppDeploy;
use futures::StreamExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use model::merge::{merged, service_with};
use model::{Child, ChildKind, later};
use serde_json::{Value, json};

use super::plan::Plan;
use crate::connection::{Cluster, MANAGER};
use crate::diff;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::operator;
use crate::output::DryRun;
use crate::ui::Ui;
use crate::wait::{self, Deadline};
use crate::workload::Workload;

/// Creates the app.
pub async fn create(cluster: &Cluster, plan: &Plan, dry_run: DryRun) -> Result<AppDeploy> {
    let broken = |source: serde_json::Error| Error::failed(format!("cannot write the app: {source}"));
    let object: DynamicObject = serde_json::from_value(plan.manifest.clone()).map_err(broken)?;
    let params = PostParams {
        dry_run: dry_run == DryRun::Server,
        field_manager: Some(MANAGER.to_owned()),
    };
    let created = cluster
        .call(cluster.objects(Some(&cluster.namespace)).create(&params, &object))
        .await?;
    match Workload::read(cluster.kind, &created) {
        Workload::App(app) => Ok(app),
        Workload::PodSet(_) => Err(Error::failed("the server has made something else of the app")),
    }
}

/// Waits until the operator has seen the app: without one, nobody would start new pods.
pub async fn until_seen(cluster: &Cluster, name: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let mut changes = wait::changes(cluster, cluster.objects(Some(&cluster.namespace)), name);
    loop {
        let Some(next) = deadline.bound(changes.next()).await else {
            let error = Error::new(
                ErrorKind::TimedOut,
                format!("no operator has seen {} after {}", cluster.title(name), deadline.text()),
            )
            .why("nothing of what was there before is changed");
            let absence = operator::look(cluster)
                .await
                .absence(Some(&cluster.namespace), jiff::Timestamp::now());
            return Err(match absence {
                Some((why, next)) => error.why(why).next(next),
                None => error,
            });
        };
        match next.transpose()?.flatten() {
            Some(object) if Workload::read(cluster.kind, &object).is_observed() => return Ok(()),
            Some(_) => ui.progress(&format!("{name}: waiting for the operator")),
            None => {}
        }
    }
}

/// Waits until the app's own pods are all available.
pub async fn until_available(cluster: &Cluster, plan: &Plan, uid: &str, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let name = &plan.name;
    let api = diff::api(cluster, ChildKind::Deployment, &cluster.namespace);
    let mut changes = wait::changes(cluster, api, name);
    loop {
        let Some(next) = deadline.bound(changes.next()).await else {
            return Err(late(cluster, name, deadline).await?);
        };
        let live = next.transpose()?.flatten();
        let child = live.map(|live| Child::read(ChildKind::Deployment, &live.metadata, &live.data));
        match child
            .as_ref()
            .filter(|child| child.is_controlled_by(uid))
            .and_then(Child::rollout)
        {
            Some(rollout) if rollout.is_complete() => return Ok(()),
            Some(rollout) => ui.progress(&format!(
                "{name}: {} of {} new pods are available; the old ones serve",
                rollout.available, rollout.wanted
            )),
            None => ui.progress(&format!(
                "{name}: waiting for the operator to start new pods; the old ones serve"
            )),
        }
    }
}

/// Says why the new pods are late, as the app's status has it.
async fn late(cluster: &Cluster, name: &str, deadline: Deadline) -> Result<Error> {
    let api = cluster.objects(Some(&cluster.namespace));
    let app = cluster.call(api.get_opt(name)).await?;
    let error = Error::new(
        ErrorKind::TimedOut,
        format!(
            "the new pods of {} are not available after {}",
            cluster.title(name),
            deadline.text()
        ),
    )
    .why("the old pods serve on");
    let app = app.map(|app| Workload::read(cluster.kind, &app));
    let error = match app.as_ref().and_then(Workload::explanation) {
        Some((why, _)) => error.why(why),
        None => error,
    };
    let command = cluster.words().command;
    Ok(error
        .next(format!("{command} status {name}{}", cluster.flag()))
        .next(format!("go on: {command} adopt {name}{}", cluster.flag())))
}

/// Makes an object of somebody else one of the app: its owner, its labels and what the app wants of it, in one write.
///
/// What others have written is then owned by the operator alone, as far as the app speaks of it: a field that the app stops
/// wanting must go, and would stay as long as somebody else owns it.
pub async fn take_over(
    cluster: &Cluster,
    kind: ChildKind,
    live: &Value,
    wanted: &Value,
    beside: &[Value],
) -> Result<()> {
    let api = diff::api(cluster, kind, &cluster.namespace);
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let broken = |source: serde_json::Error| Error::failed(format!("cannot write {kind} {name}: {source}"));
    let wanted = &later::due_in_place(wanted, live);
    let mut live = live.clone();
    let mut tries = 0;
    loop {
        let mut object = match kind {
            ChildKind::Service => service_with(&live, wanted, beside),
            ChildKind::Deployment | ChildKind::Ingress => merged(&live, None, wanted),
        };
        let owner = &wanted["metadata"]["ownerReferences"];
        object["metadata"]["ownerReferences"] = owner.clone();
        object["metadata"]["managedFields"] = json!([{}]);
        let object: DynamicObject = serde_json::from_value(object).map_err(broken)?;
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            dry_run: false,
        };
        match cluster.attempt(api.replace(name, &params, &object)).await? {
            Ok(_) => break,
            // Its controllers write its status; what was compared must be what is changed.
            Err(kube::Error::Api(status)) if status.is_conflict() && tries < 5 => {
                tries += 1;
                let again = cluster.call(api.get(name)).await?;
                live = serde_json::to_value(again).map_err(broken)?;
            }
            Err(source) => return Err(cluster.explain(source).about(&format!("{}/{name}", kind.resource()))),
        }
    }
    // The very write of the operator, so that its fields are the operator's.
    let params = PatchParams::apply(crd::FIELD_MANAGER).force();
    cluster.call(api.patch(name, &params, &Patch::Apply(wanted))).await?;
    Ok(())
}
