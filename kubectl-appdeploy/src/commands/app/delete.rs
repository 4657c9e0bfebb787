//! `kubectl appdeploy delete`.

use clap::ValueEnum;
use crd::Kind;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, PropagationPolicy};
use model::NextCommand;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info;
use crate::cluster::wait::Deadline;
use crate::commands::change::deletion::{self, Flags, Method};
use crate::error::Result;
use crate::output::formats::DryRun;
use crate::resource::deletion::{request, until_gone};
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
    flags: Flags,
    /// How to delete the children: foreground (before the {one}), background (after it) or orphan (keep them)
    #[arg(long, value_name = "HOW", default_value = "foreground", hide_possible_values = true)]
    cascade: Cascade,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    deletion::run(&args.flags, &args.cascade, kind_info::of(kind), kube, ui).await
}

impl Method for Cascade {
    fn flags(&self) -> NextCommand {
        match self {
            Self::Foreground => NextCommand::default(),
            Self::Background => "--cascade=background".into(),
            Self::Orphan => "--cascade=orphan".into(),
        }
    }

    fn notes(&self, _: &[&DynamicObject]) -> Vec<String> {
        Vec::new()
    }

    async fn delete(&self, cluster: &Cluster, object: &DynamicObject, dry_run: DryRun) -> Result<()> {
        let policy = match self {
            Self::Foreground => PropagationPolicy::Foreground,
            Self::Background => PropagationPolicy::Background,
            Self::Orphan => PropagationPolicy::Orphan,
        };
        request(cluster, object, policy, dry_run).await
    }

    async fn wait(&self, cluster: &Cluster, object: &DynamicObject, deadline: Deadline, ui: &mut Ui) -> Result<()> {
        let name = object.name_any();
        ui.progress(&format!("waiting until {name} and its children are deleted"));
        until_gone(cluster, object, deadline, ui).await
    }
}
