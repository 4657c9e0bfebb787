//! Executes an adoption in an order in which requests are always served.

use std::collections::BTreeSet;

use model::children::{DEPLOYMENT, SERVICE};
use model::merge::service_with;
use model::{CHILDREN, ChildKind, Desired};

use super::plan::{Plan, wanted};
use super::pods::Pods;
use super::snapshot::Snapshot;
use super::step::{self, Takeover};
use super::{endpoints, retire};
use crate::cluster::connection::Cluster;
use crate::cluster::wait::Deadline;
use crate::diagnosis::readiness;
use crate::error::{Error, Result};
use crate::installation::rights::{Right, refused};
use crate::output::formats::DryRun;
use crate::terminal::ui::Ui;

/// Fails if the user lacks a right for a step, before the first step.
pub async fn check_rights(cluster: &Cluster, plan: &Plan) -> Result<()> {
    let refused = refused(cluster, rights(plan, &cluster.namespace)).await?;
    let Some(first) = refused.first() else {
        return Ok(());
    };
    let title = cluster.title(&plan.name);
    let error = Error::failed(format!("{title} would be adopted only in part: nothing was changed"));
    let error = refused
        .iter()
        .fold(error, |error, right| error.why(format!("you may not {right}")));
    Err(error.next(first.can_i()))
}

/// Returns the rights that a plan takes.
fn rights(plan: &Plan, namespace: &str) -> BTreeSet<Right> {
    let right = |verb: &str, group: &str, resource: &str| Right::within(namespace, verb, group, resource);
    let mut rights = BTreeSet::from([right("patch", "appdeploy.dev", "appdeploys")]);
    let mut follow = |group: &str, resource: &str| {
        rights.extend(["list", "watch"].map(|verb| right(verb, group, resource)));
    };
    follow("appdeploy.dev", "appdeploys");
    if plan.pods.are_replaced() || plan.waits {
        follow("apps", "deployments");
    }
    if plan.pods.are_replaced() {
        follow("apps", "replicasets");
    }
    if plan.pods.are_replaced() || plan.is_bridged {
        follow("discovery.k8s.io", "endpointslices");
        rights.insert(right("list", "", "pods"));
    }
    if plan.app.is_none() {
        rights.insert(right("create", "appdeploy.dev", "appdeploys"));
    }
    let mut change = |group: &str, resource: &str| {
        rights.extend(["patch", "update"].map(|verb| right(verb, group, resource)));
    };
    for kind in &plan.taken {
        change(kind.group, kind.plural);
    }
    match plan.pods {
        Pods::Own => {}
        Pods::Kept => change("apps", "deployments"),
        Pods::Replaced => rights.extend([
            right("delete", "apps", "deployments"),
            right("patch", "apps", "replicasets"),
            right("delete", "apps", "replicasets"),
        ]),
    }
    rights
}

/// Lets the API server check each write that hands an object over, and forget it.
pub async fn rehearse(cluster: &Cluster, found: &Snapshot, plan: &Plan) -> Result<()> {
    let uid = found.uid().unwrap_or_default();
    for kind in CHILDREN {
        if let Some(over) = takeover(found, plan, &plan.wanted, uid, kind) {
            step::take_over(cluster, over, DryRun::Server).await?;
        }
    }
    Ok(())
}

/// Returns the takeover of a third-party object, if there is one.
fn takeover<'a>(
    found: &'a Snapshot,
    plan: &'a Plan,
    wanted: &'a Desired,
    uid: &str,
    kind: &'static ChildKind,
) -> Option<Takeover<'a>> {
    if *kind == DEPLOYMENT && plan.pods != Pods::Kept {
        return None;
    }
    Some(Takeover {
        kind,
        live: found.foreign(kind, uid)?,
        wanted: wanted.first(kind)?,
        before: plan.before.as_ref(),
        beside: &plan.beside,
    })
}

/// Does what is left to do.
pub async fn run(cluster: &Cluster, found: &Snapshot, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let app = match &plan.app {
        Some(app) => app.clone(),
        None => step::create(cluster, plan, DryRun::None).await?,
    };
    step::until_seen(cluster, plan, deadline, ui).await?;
    let wanted = wanted(&app)?;
    let uid = app.metadata.uid.as_deref().unwrap_or_default();
    // The pods first: those of before serve until those of the app can.
    if plan.pods.are_replaced() {
        retire::release(cluster, found, plan, deadline, ui).await?;
        step::until_available(cluster, plan, uid, deadline, ui).await?;
    } else {
        if let Some(over) = takeover(found, plan, &wanted, uid, &DEPLOYMENT) {
            step::still_there(cluster, &plan.name, uid).await?;
            step::take_over(cluster, over, DryRun::None).await?;
        }
        if plan.waits {
            step::until_available(cluster, plan, uid, deadline, ui).await?;
        }
    }
    // Then the way to them.
    lead(cluster, found, plan, &wanted, uid, deadline, ui).await?;
    // Last, the pods that get no requests any more.
    if plan.pods.are_replaced() {
        retire::remove(cluster, found, plan, deadline, ui).await?;
    }
    step::until_ours(cluster, &plan.name, deadline, ui).await?;
    let ready = readiness::ready(cluster, &cluster.namespace, &plan.name, deadline, ui).await?;
    ui.eprintln(&match ready.address() {
        Some(url) => format!("{} is ready: {url}", plan.name),
        None => format!("{} is ready", plan.name),
    });
    readiness::warn(cluster, &ready, ui).await;
    Ok(())
}

/// Leads requests to the pods of the app.
async fn lead(
    cluster: &Cluster,
    found: &Snapshot,
    plan: &Plan,
    wanted: &Desired,
    uid: &str,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<()> {
    let (name, port) = (&plan.name, plan.port.unwrap_or_default());
    let mut leads = found.live.of(&SERVICE).cloned();
    if let Some(over) = takeover(found, plan, wanted, uid, &SERVICE) {
        let becomes = service_with(over.live, over.wanted, &plan.beside);
        if plan.is_bridged {
            ui.progress(&format!(
                "{name}: adding EndpointSlices with the new names of the ports"
            ));
            endpoints::bridge(cluster, name, &becomes, port).await?;
        }
        step::still_there(cluster, name, uid).await?;
        step::take_over(cluster, over, DryRun::None).await?;
        leads = Some(becomes);
    }
    for kind in plan.taken.iter().filter(|kind| ***kind != SERVICE) {
        if let Some(over) = takeover(found, plan, wanted, uid, kind) {
            step::still_there(cluster, name, uid).await?;
            step::take_over(cluster, over, DryRun::None).await?;
        }
    }
    let has_old_ways = plan.pods.are_replaced() || plan.is_bridged || found.is_bridged;
    if let Some(service) = leads.filter(|_| has_old_ways && wanted.first(&SERVICE).is_some()) {
        ui.progress(&format!(
            "{name}: waiting until requests go only to the pods of the app"
        ));
        let some = plan.manifest["spec"]["replicas"] != 0;
        let moved = deadline
            .bound(endpoints::until_moved(cluster, name, &service, port, some, ui))
            .await;
        moved.ok_or_else(|| retire::late(plan, deadline, "requests still go to other pods"))??;
    }
    if plan.is_bridged || found.is_bridged {
        endpoints::remove_bridges(cluster, name).await?;
    }
    Ok(())
}
