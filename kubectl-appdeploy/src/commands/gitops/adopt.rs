//! `kubectl appdeploy adopt`: turns an existing Deployment, Service and Ingress into an app.
//!
//! The plan is computed from the current state each time, so an interrupted command continues where it
//! stopped, and in between old pods serve. The order, and why, is in docs/adr/0013.

mod dependents;
mod endpoints;
mod execute;
mod impact;
mod plan;
mod pods;
mod retire;
mod snapshot;
mod step;

use std::time::Duration;

use crd::Kind;
use model::{NextCommand, command};

use crate::cluster::confirm;
use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::wait::Deadline;
use crate::error::{Error, Result};
use crate::output::formats::{ChangeArgs, DryRun};
use crate::output::{duration, yaml};
use crate::resource::object_diff;
use crate::resource::selection;
use crate::terminal::ui::Ui;

use plan::Plan;
use snapshot::Snapshot;

const EXAMPLES: &str = "\
Examples:
  # Show what would change
  {command} adopt {name} --dry-run=client

  # Turn the Deployment, Service and Ingress {name} into an app
  {command} adopt {name}

  # Adopt a Deployment with another name than the Service
  {command} adopt {name} --deployment={name}-v1

  # Write the app to a file instead
  {command} adopt {name} --dry-run=client -o yaml > {name}.yaml

If an AppDeploy {name} exists and reports NameConflict, it adopts the objects;
otherwise a new one is created from them. The selector of a Deployment is
immutable: if it differs, new pods are started, the Service and the Ingress are
switched when they are available, and then the old pods are deleted. If the
command is interrupted, run it again to continue.";

/// The flags of `adopt`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the app, and of the Service and the Ingress to adopt
    name: String,
    /// Deployment to adopt; default: the one with the same name
    #[arg(long, value_name = "DEPLOYMENT")]
    deployment: Option<String>,
    /// Continue even if something is lost
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

impl Args {
    /// Returns the same command once more, with a further flag. Without a flag that was given it would do something else.
    fn again(&self, cluster: &Cluster, more: &'static str) -> NextCommand {
        let deployment = self.deployment.as_ref();
        let deployment = deployment.map(|name| command!("--deployment={}", name));
        cluster
            .kind_info()
            .verb("adopt", &self.name)
            .and(deployment.unwrap_or_default())
            .and(if self.force { "--force" } else { "" })
            .and(more)
            .and(cluster.flag())
    }
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let cluster = kube.connect().await?.about(Kind::AppDeploy);
    let name = selection::name(Kind::AppDeploy, &args.name)?.to_owned();
    let found = Snapshot::gather(&cluster, &name, args.deployment.as_deref()).await?;
    let mut plan = plan::plan(&found)?;
    plan.again = args.again(&cluster, "");
    let title = cluster.title(&name);
    if plan.is_done() {
        return args.change.print_result(ui, &title, "unchanged", &plan.manifest);
    }
    // A prompt always shows the plan.
    let is_shown = args.change.output.is_none() || args.change.dry_run.is_real() && !args.yes;
    if is_shown {
        show(&args, &plan, ui)?;
    }
    if let Some(refusal) = plan.refusal(&title, args.force) {
        return Err(refusal.next(args.again(&cluster, "--force").remark("to confirm")));
    }
    if args.change.dry_run != DryRun::Client {
        // Rejections of the API server must be known before anything is changed.
        if plan.app.is_none() {
            step::create(&cluster, &plan, DryRun::Server).await?;
        }
        execute::check_rights(&cluster, &plan).await?;
        execute::dry_run(&cluster, &found, &plan).await?;
    }
    if args.change.dry_run.is_real() {
        ask(&args, &cluster, &plan)?;
        // The Deployment may have changed while the prompt was open.
        let now = Snapshot::gather(&cluster, &name, args.deployment.as_deref()).await?;
        if now.shapes() != found.shapes() {
            return Err(confirm::outdated(args.again(&cluster, "")));
        }
        Box::pin(execute::run(&cluster, &found, &plan, Deadline::after(args.timeout), ui)).await?;
    }
    args.change.print_result(ui, &title, "adopted", &plan.manifest)
}

/// Prints the app, the change of each object, and what is lost.
fn show(args: &Args, plan: &Plan, ui: &mut Ui) -> Result<()> {
    let is_asked_for = !args.change.dry_run.is_real();
    let mut texts = Vec::new();
    if plan.app.is_none() {
        texts.push(yaml::write(&plan.manifest)?);
    }
    let render = ui.render_options();
    for pair in plan.pairs.iter().filter(|pair| pair.differs()) {
        texts.push(object_diff::unified(pair, &render)?);
    }
    texts.push(plan.summary(args.force, &render));
    for text in texts {
        if is_asked_for {
            ui.print(&text)?;
        } else {
            ui.eprintln(text.trim_end_matches('\n'));
        }
    }
    Ok(())
}

fn ask(args: &Args, cluster: &Cluster, plan: &Plan) -> Result<()> {
    if args.yes {
        return Ok(());
    }
    let name = &plan.name;
    let unasked = Error::usage(format!(
        "adopting {} needs a confirmation: nothing was changed",
        cluster.title(name)
    ))
    .next(args.again(cluster, "--yes").remark("to confirm"));
    let question = format!("Adopt {name}?");
    confirm::ask(
        cluster,
        Some(&cluster.namespace),
        &question,
        unasked,
        "nothing was changed",
    )
}
