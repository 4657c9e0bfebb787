//! `kubectl appdeploy pause` and `resume`.

use crd::Kind;
use serde_json::Value;

use crate::cluster::connection::KubeArgs;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::Result;
use crate::output::formats::ChangeArgs;
use crate::resource::fields::put;
use crate::resource::selection::Selection;
use crate::terminal::ui::Ui;

const PAUSE_EXAMPLES: &str = "\
Examples:
  # Collect changes, and roll them out together
  {command} pause {name}
  {command} set image {name}=ghcr.io/acme/shop:1.5
  {command} set env {name} MODE=live
  {command} resume {name} --wait";

const RESUME_EXAMPLES: &str = "\
Examples:
  # Roll out the changes, and wait until all pods are ready
  {command} resume {name} --wait";

/// The flags of `pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub struct PauseArgs {
    #[command(flatten)]
    which: Selection,
    #[command(flatten)]
    change: ChangeArgs,
}

/// The flags of `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub struct ResumeArgs {
    #[command(flatten)]
    which: Selection,
    #[command(flatten)]
    flags: Flags,
}

/// Runs `pause`. There is nothing to wait for.
pub async fn pause(args: PauseArgs, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let flags = Flags::without_wait(args.change);
    run(&args.which, flags, true, kind, kube, ui).await
}

/// Runs `resume`.
pub async fn resume(args: ResumeArgs, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    run(&args.which, args.flags, false, kind, kube, ui).await
}

async fn run(which: &Selection, flags: Flags, paused: bool, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let example = if paused { "pause {name}" } else { "resume {name}" };
    which.require(kind, example)?;
    let cluster = kube.connect().await?.about(kind);
    let verb = Verb {
        example,
        done: if paused { "paused" } else { "resumed" },
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            put(&mut object["spec"], "paused", paused.then_some(Value::Bool(true)));
            Ok(())
        },
    };
    change::run(&cluster, which, flags, verb, ui).await
}
