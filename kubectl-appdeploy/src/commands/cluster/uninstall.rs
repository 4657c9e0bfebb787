//! `kubectl appdeploy uninstall`: prints its plan, then deletes in an order in which no deletion hangs.

mod contents;
mod plan;
mod survey;

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use model::NextCommand;
use serde_json::json;

use crate::cluster::connection::{Cluster, KubeArgs, MANAGER};
use crate::cluster::wait::{self, Deadline};
use crate::cluster::{confirm, kind_info};
use crate::diagnosis::queue::deletion as queue;
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::installation::manifests::{self, Kind};
use crate::output::duration;
use crate::output::formats::{self, DryRun};
use crate::resource::deletion;
use crate::terminal::ui::Ui;

use contents::{Contents, UNKNOWN, Unseen};
use plan::{Choice, Names, Plan};

/// The advice if an object was not deleted in time.
const AGAIN: &str = "solve this, then run the same command again to continue";

const EXAMPLES: &str = "\
Examples:
  # Remove the operator; queues, apps, pod sets and the CRDs stay
  kubectl appdeploy uninstall

  # Show everything that would be removed, and every app
  kubectl appdeploy uninstall --dry-run=client --delete-apps --delete-crds

  # Remove AppDeploy, and keep what runs, without an owner
  kubectl appdeploy uninstall --delete-apps --orphan-children --delete-crds

  # Remove everything without confirmation
  kubectl appdeploy uninstall --delete-apps --delete-crds --yes";

/// The flags of `uninstall`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "give each as a separate flag")]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Also delete all queues, apps and pod sets, in all namespaces, with their children
    #[arg(long)]
    delete_apps: bool,
    /// Also delete the CRDs, and with them all queues, apps and pod sets
    #[arg(long)]
    delete_crds: bool,
    /// Keep the children of deleted apps and pod sets, without an owner, and the queues outside the cluster
    #[arg(long)]
    orphan_children: bool,
    /// Do not ask for confirmation before queues, apps and pod sets are deleted
    #[arg(short, long)]
    yes: bool,
    /// Wait until everything is deleted
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration::parse)]
    timeout: Duration,
    /// none, client (print the plan and send nothing), or server (the API server validates each deletion)
    #[arg(
        long,
        value_name = "MODE",
        default_value = "none",
        hide_default_value = true,
        hide_possible_values = true
    )]
    dry_run: DryRun,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    kube.refuse_namespace()?;
    if args.orphan_children && !args.delete_apps && !args.delete_crds {
        return Err(
            Error::usage("--orphan-children needs --delete-apps or --delete-crds: no app is deleted")
                .next("kubectl appdeploy uninstall --delete-apps --orphan-children"),
        );
    }
    let cluster = kube.connect().await?;
    let found = survey::collect(&cluster).await?;
    let choice = Choice {
        apps: args.delete_apps,
        crds: args.delete_crds,
        orphans: args.orphan_children,
    };
    let plan = plan::plan(&found, choice);
    if plan.is_empty() {
        ui.eprintln(&if plan.stays.is_empty() {
            "AppDeploy is not installed in this cluster: nothing to remove.".to_owned()
        } else {
            format!("There is nothing to remove.\n{}", plan.text(Names::Some))
        });
        let unchecked = plan.unchecked.filter(|_| args.dry_run.is_real());
        return unchecked.map_or(Ok(()), |why| Err(not_checked(why)));
    }
    if args.dry_run == DryRun::Client {
        return ui.print(&plan.text(Names::All));
    }
    ui.eprintln(&plan.text(Names::Some));
    if args.dry_run.is_real() && !plan.workloads.is_empty() && !args.yes {
        consent(&args, &cluster, &plan)?;
        if survey::collect(&cluster).await?.shape() != found.shape() {
            return Err(confirm::outdated(args.again()));
        }
    }
    remove(&args, &cluster, &plan, found.owners(), ui).await?;
    if let (true, Some(why)) = (args.dry_run.is_real(), plan.unchecked) {
        return Err(not_checked(why));
    }
    if args.dry_run.is_real() && args.wait {
        ui.eprintln("AppDeploy is uninstalled.");
    }
    Ok(())
}

/// Prompts before queues, apps and pod sets are deleted.
fn consent(args: &Args, cluster: &Cluster, plan: &Plan) -> Result<()> {
    let lost = plan.loss();
    let unasked = Error::usage(format!("this deletes {lost}: nothing was removed"))
        .next(args.again().and("--yes").remark("to confirm"));
    confirm::ask(
        cluster,
        None,
        &format!("Delete {lost}?"),
        unasked,
        "nothing was removed",
    )
}

impl Args {
    /// Returns the same command again.
    fn again(&self) -> NextCommand {
        let flags = [
            (self.delete_apps, "--delete-apps"),
            (self.orphan_children, "--orphan-children"),
            (self.delete_crds, "--delete-crds"),
        ];
        let flags = flags.into_iter().filter_map(|(on, flag)| on.then_some(flag));
        flags.fold("kubectl appdeploy uninstall".into(), NextCommand::and)
    }
}

async fn remove(args: &Args, cluster: &Cluster, plan: &Plan, owners: BTreeSet<String>, ui: &mut Ui) -> Result<()> {
    let deadline = Deadline::after(args.timeout);
    let suffix = args.dry_run.suffix();
    let policy = if args.orphan_children {
        PropagationPolicy::Orphan
    } else {
        PropagationPolicy::Foreground
    };
    // The operator is still there: whatever guards an object can do its work.
    remove_queues(args, cluster, plan, policy.clone(), deadline, ui).await?;
    let workloads = || plan.workloads.iter().filter(|(kind, _)| kind.workload.is_some());
    for (kind, object) in workloads() {
        let api = kind_info::api(&cluster.client, *kind, object.metadata.namespace.as_deref());
        manifests::delete(cluster, &api, object, policy.clone(), args.dry_run).await?;
    }
    for (kind, object) in workloads() {
        let title = kind_info::title(*kind, &object.name_any());
        if let (true, Some(kind)) = (args.dry_run.is_real(), kind.workload) {
            let family = if args.orphan_children {
                "is deleted and its children are released"
            } else {
                "and its children are deleted"
            };
            ui.progress(&format!("waiting until {title} {family}"));
            // Even without --wait: without its CRD or the operator, an object could hang indefinitely.
            deletion::until_gone(&cluster.clone().about(kind), object, deadline, ui)
                .await
                .map_err(|error| error.next(AGAIN))?;
        }
        ui.print(&format!(
            "{title} deleted from {} namespace{suffix}",
            object.namespace().unwrap_or_default()
        ))?;
    }
    for (kind, object) in &plan.steps {
        let (title, name) = (kind.title(&object.name_any()), object.name_any());
        let api = kind.api_of(&cluster.client, object);
        if *kind == Kind::namespace() && args.dry_run.is_real() {
            // The namespace may hold new objects since the plan was made.
            let Contents { foreign, unseen } = contents::list(cluster, owners.clone()).await?;
            if !foreign.is_empty() {
                ui.warn(&format!("{title} stays: it now also holds {}", formats::some(&foreign)));
                continue;
            }
            if let Some(Unseen::Forbidden(why) | Unseen::Failed(why)) = unseen {
                return Err(not_checked(why));
            }
        }
        if *kind == Kind::crd() {
            allow_deletion(cluster, &api, object, args.dry_run).await?;
        }
        // A dry run does not store the permission, so the policy would still reject the deletion of the CRD.
        if *kind != Kind::crd() || args.dry_run != DryRun::Server {
            manifests::delete(cluster, &api, object, PropagationPolicy::Foreground, args.dry_run).await?;
        }
        if args.wait && args.dry_run.is_real() {
            // These take time; others are deleted immediately.
            if [Kind::deployment(), Kind::crd(), Kind::namespace()].contains(kind) {
                ui.progress(&format!("waiting until {title} is deleted"));
            }
            let last = wait::until_deleted(cluster, api, &name, object.metadata.uid.as_deref(), deadline, ui).await?;
            if let Some(last) = last {
                return Err(held(kind, &last, deadline));
            }
        }
        ui.print(&format!("{title} deleted{}{suffix}", manifests::place("from", object)))?;
    }
    Ok(())
}

/// Deletes all AppQueues and waits until the operator has deleted or released their queues. Even without --wait: without the
/// operator, its finalizer would stay.
async fn remove_queues(
    args: &Args,
    cluster: &Cluster,
    plan: &Plan,
    policy: PropagationPolicy,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<()> {
    let cluster = cluster.clone().about(&kind_info::QUEUE);
    let all = plan.workloads.iter().filter(|(kind, _)| kind.workload.is_none());
    let queues: Vec<&DynamicObject> = all.map(|(_, object)| object).collect();
    for object in &queues {
        if args.orphan_children {
            // One that is deleted already is not an error.
            match queue::retain(&cluster, object, args.dry_run).await {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            }
        }
        let api = cluster.objects(object.metadata.namespace.as_deref());
        manifests::delete(&cluster, &api, object, policy.clone(), args.dry_run).await?;
    }
    for object in queues {
        let title = cluster.title(&object.name_any());
        if args.dry_run.is_real() {
            let waited = if args.orphan_children {
                ui.progress(&format!("waiting until {title} is released"));
                queue::until_released(&cluster, object, deadline, ui).await
            } else {
                ui.progress(&format!("waiting until {title} and its queue are deleted"));
                queue::until_gone(&cluster, object, deadline, ui).await
            };
            waited.map_err(|error| error.next(AGAIN))?;
        }
        let namespace = object.namespace().unwrap_or_default();
        ui.print(&format!(
            "{title} deleted from {namespace} namespace{}",
            args.dry_run.suffix()
        ))?;
    }
    Ok(())
}

/// Sets the annotation that an admission policy requires on a CRD before its deletion. A deleted CRD is not an error.
async fn allow_deletion(
    cluster: &Cluster,
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    dry_run: DryRun,
) -> Result<()> {
    let params = PatchParams {
        dry_run: dry_run == DryRun::Server,
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let annotations = json!({crd::annotation::ALLOW_DELETION: "true"});
    let patch = json!({"metadata": {"uid": object.metadata.uid, "annotations": annotations}});
    match cluster
        .attempt(api.patch(&object.name_any(), &params, &Patch::Merge(patch)))
        .await?
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(cluster.explain(source)),
        Ok(_) => Ok(()),
    }
}

/// Returns why the namespace is left: it may hold objects that are not of AppDeploy.
fn not_checked(why: String) -> Error {
    let title = Kind::namespace().title(crd::OPERATOR_NAMESPACE);
    let message = format!("{title} is not deleted: {UNKNOWN}");
    Error::new(ErrorKind::Failed, message).why(why).next(AGAIN)
}

/// Returns what keeps an object from going, in the cluster's own words.
fn held(kind: &Kind, last: &DynamicObject, deadline: Deadline) -> Error {
    let title = kind.title(&last.name_any());
    let mut error = Error::new(
        ErrorKind::TimedOut,
        format!("{title} is not deleted after {}", deadline.text()),
    );
    for why in manifests::held_by(last) {
        error = error.why(why);
    }
    error.next(AGAIN)
}
