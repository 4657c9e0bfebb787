//! Executes an adoption. Its order keeps requests served at all times.

use std::collections::BTreeSet;

use model::children::{DEPLOYMENT, SERVICE};
use model::merge::service_with;
use model::{CHILDREN, ChildKind, Desired};

use super::endpoints::Target;
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

/// Returns the rights that a plan needs.
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

/// Sends each write of the adoption as a server-side dry run.
pub async fn dry_run(cluster: &Cluster, found: &Snapshot, plan: &Plan) -> Result<()> {
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
        extra_ports: &plan.extra_ports,
    })
}

/// Executes the remaining steps.
pub async fn run(cluster: &Cluster, found: &Snapshot, plan: &Plan, deadline: Deadline, ui: &mut Ui) -> Result<()> {
    let app = match &plan.app {
        Some(app) => app.clone(),
        None => step::create(cluster, plan, DryRun::None).await?,
    };
    step::until_observed(cluster, plan, deadline, ui).await?;
    let wanted = wanted(&found.live, &app)?;
    let uid = app.metadata.uid.as_deref().unwrap_or_default();
    // First the pods: the old ones serve until the new ones are available.
    if plan.pods.are_replaced() {
        retire::release(cluster, found, plan, deadline, ui).await?;
        step::until_available(cluster, plan, uid, deadline, ui).await?;
    } else {
        if let Some(over) = takeover(found, plan, &wanted, uid, &DEPLOYMENT) {
            step::check_app_exists(cluster, &plan.name, uid).await?;
            step::take_over(cluster, over, DryRun::None).await?;
        }
        if plan.waits {
            step::until_available(cluster, plan, uid, deadline, ui).await?;
        }
    }
    // Then the Service and the Ingress.
    switch_traffic(cluster, found, plan, &wanted, uid, deadline, ui).await?;
    // Last, the old pods, which receive no more requests.
    if plan.pods.are_replaced() {
        retire::remove(cluster, found, plan, deadline, ui).await?;
    }
    step::until_ours(cluster, &plan.name, deadline, ui).await?;
    readiness::report_ready(cluster, &plan.name, deadline, ui).await
}

/// Adopts the Service and the Ingress, and waits until requests reach only the pods of the app.
async fn switch_traffic(
    cluster: &Cluster,
    found: &Snapshot,
    plan: &Plan,
    wanted: &Desired,
    uid: &str,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<()> {
    let (name, port) = (&plan.name, plan.port.unwrap_or_default());
    let mut service = found.live.of(&SERVICE).cloned();
    if let Some(over) = takeover(found, plan, wanted, uid, &SERVICE) {
        let becomes = service_with(over.live, over.wanted, &plan.extra_ports);
        if plan.is_bridged {
            ui.progress(&format!(
                "{name}: adding EndpointSlices with the new names of the ports"
            ));
            endpoints::bridge(cluster, name, &becomes, port).await?;
        }
        step::check_app_exists(cluster, name, uid).await?;
        step::take_over(cluster, over, DryRun::None).await?;
        service = Some(becomes);
    }
    for kind in plan.taken.iter().filter(|kind| ***kind != SERVICE) {
        if let Some(over) = takeover(found, plan, wanted, uid, kind) {
            step::check_app_exists(cluster, name, uid).await?;
            step::take_over(cluster, over, DryRun::None).await?;
        }
    }
    let may_have_old_endpoints = plan.pods.are_replaced() || plan.is_bridged || found.is_bridged;
    if let Some(service) = service.filter(|_| may_have_old_endpoints && wanted.first(&SERVICE).is_some()) {
        ui.progress(&format!(
            "{name}: waiting until the Service routes only to the pods of the app"
        ));
        let target = Target {
            app: name,
            service: &service,
            port,
            has_pods: plan.manifest["spec"]["replicas"] != 0,
        };
        if !endpoints::until_moved(cluster, target, deadline, ui).await? {
            return Err(retire::timed_out(
                plan,
                deadline,
                "the Service still has other endpoints",
            ));
        }
    }
    if plan.is_bridged || found.is_bridged {
        endpoints::remove_bridges(cluster, name).await?;
    }
    Ok(())
}
