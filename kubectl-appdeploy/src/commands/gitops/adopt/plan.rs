//! The plan of an adoption, as a function of the existing objects.

use crd::{AppDeploy, AppDeploySpec, Kind, label};
use kube::core::ObjectMeta;
use model::children::{DEPLOYMENT, INGRESS, POD_MONITOR, SERVICE, SERVICE_ACCOUNT};
use model::desired::DesiredChild;
use model::merge::{deployment_with, merged, service_with};
use model::spec_reader;
use model::{CHILDREN, ChildKind, Desired, NextCommand, command, defaults, desired};
use serde_json::Value;

use super::endpoints::are_renamed;
use super::impact::{self, Impact};
use super::pods::Pods;
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::resource::live_children::{Live, is_of};
use crate::resource::object_diff::Pair;
use crate::resource::strip_defaults;
use crate::terminal::ui::RenderOptions;

/// The plan of an adoption.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    /// The command that continues an interrupted adoption.
    pub again: NextCommand,
    /// The app, if there is one already.
    pub app: Option<AppDeploy>,
    /// The manifest of the app.
    pub manifest: Value,
    pub pods: Pods,
    /// The wanted children. Without an app yet, they have no owner.
    pub wanted: Desired,
    /// The spec that was read from the Deployment, as the operator would have rendered it.
    pub before: Option<Value>,
    /// Whether kept pods must be available before requests are sent to them.
    pub waits: bool,
    /// Each object before and after the adoption.
    pub pairs: Vec<Pair>,
    /// The kinds of third-party objects that are taken over, without the Deployment.
    pub taken: Vec<&'static ChildKind>,
    /// The port of the app.
    pub port: Option<i32>,
    /// The ports that the Service keeps, in addition to that of the app.
    pub extra_ports: Vec<Value>,
    /// Whether temporary EndpointSlices with the new port names of the Service are created before its ports are renamed.
    pub is_bridged: bool,
    /// What is lost.
    lost: Vec<String>,
    /// Notes.
    notes: Vec<String>,
    is_done: bool,
}

/// Returns the plan.
pub fn plan(found: &Snapshot) -> Result<Plan> {
    let nothing = Value::Null;
    let keeper = found.old().or_else(|| found.own());
    let template = &keeper.unwrap_or(&nothing)["spec"]["template"];
    let uid = found.uid().unwrap_or_default();
    let [service, ingress, pod_monitor, service_account] =
        [&SERVICE, &INGRESS, &POD_MONITOR, &SERVICE_ACCOUNT].map(|kind| found.foreign(kind, uid));
    let live = spec_reader::LiveObjects {
        deployment: keeper,
        service,
        ingress,
        pod_monitor,
        service_account,
    };
    let read = spec_reader::read_app(&found.name, &found.namespace, live);
    let pods = pods(found);
    let app = found.app.clone().unwrap_or_else(|| AppDeploy {
        // A Deployment that is created paused has no pods.
        spec: AppDeploySpec {
            paused: read.spec.paused && pods == Pods::Kept,
            ..read.spec.clone()
        },
        ..named(found)
    });
    feasible(found, &app, pods)?;
    let wanted = wanted(&found.live, &app)?;
    let extra_ports = match (service, app.spec.pod.container.port) {
        (Some(service), Some(port)) => spec_reader::extra_ports(service, template, port, &app.spec.pod.container.ports),
        _ => Vec::new(),
    };
    let Impact { lost, notes } = impact::of(found, &read, &wanted, &extra_ports, pods);
    let becomes = service.zip(wanted.first(&SERVICE));
    let becomes = becomes.map(|(live, wanted)| service_with(live, wanted, &extra_ports));
    let before = AppDeploy {
        spec: read.spec,
        ..named(found)
    };
    let before = found.live.validate(&before).ok();
    let before = before.and_then(|before| desired(&before).first(&DEPLOYMENT).cloned());
    let pairs = pairs(found, &wanted, becomes.as_ref(), before.as_ref(), pods);
    let waits = match (pods, found.foreign(&DEPLOYMENT, uid)) {
        (Pods::Own, _) => becomes.is_some() && service.is_some_and(|service| !impact::selects(service, template)),
        (Pods::Kept, Some(live)) => {
            let deployment = wanted.first(&DEPLOYMENT).unwrap_or(&nothing);
            let becomes = deployment_with(live, before.as_ref(), deployment);
            let [is, becomes] = [live, &becomes].map(|object| defaults::filled(&DEPLOYMENT, object));
            is["spec"]["template"] != becomes["spec"]["template"] && !app.spec.paused
        }
        (Pods::Kept | Pods::Replaced, _) => false,
    };
    let others = CHILDREN.iter().copied().filter(|kind| **kind != DEPLOYMENT);
    let taken: Vec<_> = others
        .filter(|kind| found.foreign(kind, uid).is_some() && wanted.first(kind).is_some())
        .collect();
    let is_own = pods == Pods::Own && taken.is_empty();
    let is_done = found.app.is_some() && is_own && !found.is_bridged;
    let port = app.spec.pod.container.port;
    let manifest = AppDeploy {
        spec: app.spec,
        ..named(found)
    };
    Ok(Plan {
        name: found.name.clone(),
        again: NextCommand::default(),
        before,
        waits,
        app: found.app.clone(),
        manifest: strip_defaults::plain(Kind::AppDeploy, &manifest)?,
        pods,
        pairs,
        is_bridged: found.may_bridge
            && service
                .zip(becomes.as_ref())
                .is_some_and(|(live, is)| are_renamed(live, is)),
        taken,
        wanted,
        port,
        extra_ports,
        lost,
        notes,
        is_done,
    })
}

fn named(found: &Snapshot) -> AppDeploy {
    AppDeploy {
        metadata: ObjectMeta {
            name: Some(found.name.clone()),
            namespace: Some(found.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: AppDeploySpec::default(),
        status: None,
    }
}

/// Fails if new pods could not replace the old ones.
fn feasible(found: &Snapshot, app: &AppDeploy, pods: Pods) -> Result<()> {
    let name = &found.name;
    let namespace = &found.namespace;
    if app.metadata.deletion_timestamp.is_some() {
        return Err(Error::failed(format!(
            "AppDeploy {name} is being deleted, and adopted objects would be deleted with it: nothing was changed"
        ))
        .next(command!(
            "kubectl appdeploy status {} -n {}  (shows what blocks it)",
            name,
            namespace
        )));
    }
    if !pods.are_replaced() {
        return Ok(());
    }
    if app.spec.paused {
        return Err(Error::failed(format!(
            "AppDeploy {name} is paused, so no new pods would start: nothing was changed"
        ))
        .next(command!("kubectl appdeploy resume {} -n {}", name, namespace)));
    }
    let uid = found.uid().unwrap_or_default();
    if found.other.is_some() && found.foreign(&DEPLOYMENT, uid).is_some() {
        return Err(Error::failed(format!(
            "Deployment {name} already exists, and the app needs its name: nothing was changed"
        ))
        .next(command!(
            "kubectl delete deployment {} -n {}  (if it is not needed)",
            name,
            namespace
        )));
    }
    Ok(())
}

/// Returns the desired children of an app.
pub fn wanted(live: &Live, app: &AppDeploy) -> Result<Desired> {
    let valid = live.validate(app).map_err(|invalid| {
        let name = app.metadata.name.as_deref().unwrap_or_default();
        let error = Error::failed(format!("AppDeploy {name} would not be valid: nothing was changed"));
        invalid.0.into_iter().fold(error, Error::why)
    })?;
    Ok(live.desired(&valid))
}

fn pods(found: &Snapshot) -> Pods {
    let uid = found.uid().unwrap_or_default();
    if found.other.is_some() {
        return Pods::Replaced;
    }
    match found.foreign(&DEPLOYMENT, uid) {
        Some(live) => {
            let ours = serde_json::json!({"matchLabels": {label::APP: found.name}});
            if live["spec"]["selector"] == ours {
                Pods::Kept
            } else {
                Pods::Replaced
            }
        }
        None if found.orphans.is_empty() => Pods::Own,
        None => Pods::Replaced,
    }
}

/// Returns each object before and after the adoption.
fn pairs(found: &Snapshot, wanted: &Desired, service: Option<&Value>, before: Option<&Value>, pods: Pods) -> Vec<Pair> {
    let uid = found.uid();
    let mut pairs = Vec::new();
    for DesiredChild { id, object } in wanted.iter() {
        let kind = id.kind;
        let live = if *kind == DEPLOYMENT {
            // A ReplicaSet of a deleted Deployment does not become the app's Deployment.
            found.old().filter(|old| old["kind"] == kind.kind)
        } else {
            found.live.of(kind).filter(|live| !is_of(live, uid))
        };
        // `diff` shows the children that the app already owns.
        if found.app.is_some() && live.is_none() {
            continue;
        }
        let becomes = match live {
            None => object.clone(),
            Some(_) if *kind == DEPLOYMENT && pods.are_replaced() => defaults::filled(kind, object),
            Some(live) if *kind == DEPLOYMENT => deployment_with(live, before, object),
            Some(_) if *kind == SERVICE => service.unwrap_or(object).clone(),
            Some(live) => merged(live, None, object),
        };
        pairs.push(Pair::of(kind, &found.namespace, &found.name, live, Some(&becomes)));
    }
    pairs
}

impl Plan {
    /// Whether there is nothing to do.
    pub const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns what happens to the pods, and what is lost.
    pub fn summary(&self, force: bool, render: &RenderOptions) -> String {
        let pods = match self.pods {
            Pods::Own => "already belong to the app",
            Pods::Kept => "are kept; they restart only if the plan shows a change of the Deployment's template",
            Pods::Replaced => {
                "are replaced, because the selector of a Deployment is immutable: new ones are started first, and the old \
                 ones are deleted when the new ones serve"
            }
        };
        let mut lines = vec![render.sentence("", "pods: ", pods)];
        // Without --force, the error reports it.
        let lost = self.lost.iter().filter(|_| force);
        lines.extend(lost.map(|lost| render.sentence("", "lost: ", lost)));
        lines.extend(self.notes.iter().map(|note| render.sentence("", "note: ", note)));
        lines.join("\n")
    }

    /// Returns the error if something would be lost.
    pub fn refusal(&self, title: &str, force: bool) -> Option<Error> {
        if self.lost.is_empty() || force {
            return None;
        }
        let error = Error::failed(format!("adopting {title} would lose something: nothing was changed"));
        Some(self.lost.iter().cloned().fold(error, Error::why))
    }
}

#[cfg(test)]
mod tests;
