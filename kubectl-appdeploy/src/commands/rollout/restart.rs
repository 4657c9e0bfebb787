//! `kubectl appdeploy restart`.

use crd::Kind;
use crd::annotation::RESTARTED_AT;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::connection::KubeArgs;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::Result;
use crate::resource::selection::Selection;
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Replace all pods; {restart}
  {command} restart {name}

  # Wait until all new pods are ready
  {command} restart {name} {other} --wait";

/// The flags of `restart`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    args.which.require(kind, "restart {name}")?;
    let cluster = kube.connect().await?.about(kind);
    let now = Timestamp::now();
    let verb = Verb {
        example: "restart {name}",
        done: "restarted",
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            restart(object, now);
            Ok(())
        },
    };
    change::run(&cluster, &args.which, args.flags, verb, ui).await
}

/// Requests new pods. Two restarts within a second are one.
fn restart(object: &mut Value, now: Timestamp) {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    object["metadata"]["annotations"][RESTARTED_AT] = json!(second.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_restart_is_an_annotation() {
        let mut app = json!({"metadata": {"name": "shop"}, "spec": {"image": "nginx"}});
        restart(&mut app, "2026-01-02T03:04:05.678Z".parse().unwrap());
        assert_eq!(
            app["metadata"]["annotations"],
            json!({"appdeploy.dev/restarted-at": "2026-01-02T03:04:05Z"})
        );
    }
}
