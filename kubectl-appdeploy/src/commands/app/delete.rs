//! `kubectl appdeploy delete`.

use std::time::Duration;

use clap::ValueEnum;
use crd::Kind;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, DynamicObject, Preconditions, PropagationPolicy};
use model::{NextCommand, command};

use crate::cluster::confirm;
use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::wait::Deadline;
use crate::error::{Error, Result};
use crate::output::duration;
use crate::output::formats::{self, ChangeArgs, Done, DryRun};
use crate::resource::deletion::until_gone;
use crate::resource::selection::{self, Selection};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Delete {an} with {family}
  {command} delete {name}

  # Delete two, and ignore those that do not exist
  {command} delete {name} {other} --ignore-not-found

  # Delete only the {kind}, and keep its children
  {command} delete {name} --cascade=orphan

  # Delete all {many} of a team without confirmation
  {command} delete -l team=shop --yes";

/// What happens to the children of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Cascade {
    /// They are deleted before their owner.
    #[default]
    Foreground,
    /// They are deleted after their owner.
    Background,
    /// They are kept.
    Orphan,
}

/// The flags of `delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Do not ask for confirmation with -l or --all
    #[arg(short, long)]
    yes: bool,
    /// Ignore {many} that do not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// How to delete the children: foreground (before the {one}), background (after it) or orphan (keep them)
    #[arg(long, value_name = "HOW", default_value = "foreground", hide_possible_values = true)]
    cascade: Cascade,
    /// Wait until the {many} are deleted
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = clap::ArgAction::Set, hide_possible_values = true
    )]
    wait: bool,
    /// How long to wait, like 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    args.which.require(kind, "delete {name}")?;
    let cluster = kube.connect().await?.about(kind);
    let found = match args.which.resolve(&cluster, "delete {name}").await {
        Err(error) if args.ignore_not_found && error.is_not_found() => Vec::new(),
        other => other?,
    };
    if found.is_empty() && args.which.names.is_empty() {
        selection::nothing(&cluster, ui);
    }
    if args.is_asked() {
        consent(&args, &cluster, &found)?;
    }
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    // All are asked to go before the first is waited for.
    let mut asked = Vec::new();
    for object in found {
        match ask(&args, &cluster, object).await {
            Ok(object) => asked.push(object),
            Err(error) if args.ignore_not_found && error.is_not_found() => {}
            Err(error) => failures.push(error),
        }
    }
    let deadline = Deadline::after(args.timeout);
    for object in asked {
        if args.wait && args.change.dry_run.is_real() {
            ui.progress(&format!(
                "waiting until {} and its children are deleted",
                object.name_any()
            ));
            match until_gone(&cluster, &object, deadline, ui).await {
                // As kubectl: it is deleted, and only watching it is not allowed.
                Err(error) if error.is_forbidden() => ui.warn(&format!(
                    "{} was not waited for: {}",
                    cluster.title(&object.name_any()),
                    error.reasons()
                )),
                Err(error) => {
                    failures.push(error);
                    continue;
                }
                Ok(()) => {}
            }
        }
        gone.push(Done {
            title: cluster.title(&object.name_any()),
            word: "deleted",
            is_held: false,
            object: formats::presentable(&object),
        });
    }
    args.change.print_results(ui, &gone)?;
    selection::conclude(failures, ui)
}

impl Args {
    /// Whether objects would be deleted that the command line does not name.
    const fn is_asked(&self) -> bool {
        self.change.dry_run.is_real() && !self.yes && self.which.names.is_empty()
    }
}

/// Prompts before selected objects are deleted. Each is deleted by its UID, so no other object is deleted after the prompt.
fn consent(args: &Args, cluster: &Cluster, found: &[Result<DynamicObject>]) -> Result<()> {
    let names: Vec<String> = found.iter().flatten().map(kube::ResourceExt::name_any).collect();
    if names.is_empty() {
        return Ok(());
    }
    let words = cluster.kind_info();
    let what = format!("{} ({})", words.count(names.len()), formats::some(&names));
    let selected = match &args.which.selector {
        Some(selector) => command!("delete -l {}", selector),
        None => NextCommand::from("delete --all"),
    };
    let again = NextCommand::from(words.command)
        .and(selected)
        .and("--yes")
        .and(cluster.flag());
    let unasked = Error::usage(format!("this deletes {what}: nothing was deleted")).next(again.remark("to confirm"));
    confirm::ask(
        cluster,
        Some(&cluster.namespace),
        &format!("Delete {what}?"),
        unasked,
        "nothing was deleted",
    )
}

async fn ask(args: &Args, cluster: &Cluster, object: Result<DynamicObject>) -> Result<DynamicObject> {
    let object = object?;
    if args.change.dry_run == DryRun::Client {
        return Ok(object);
    }
    let params = DeleteParams {
        dry_run: args.change.dry_run == DryRun::Server,
        propagation_policy: Some(match args.cascade {
            Cascade::Foreground => PropagationPolicy::Foreground,
            Cascade::Background => PropagationPolicy::Background,
            Cascade::Orphan => PropagationPolicy::Orphan,
        }),
        // Not another object that has taken its name in the meantime.
        preconditions: Some(Preconditions {
            uid: object.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let api = cluster.objects(Some(&cluster.namespace));
    cluster.call(api.delete(&object.name_any(), &params)).await?;
    Ok(object)
}
