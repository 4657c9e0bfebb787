//! `kubectl appdeploy queue delete`.

use crd::AppQueue;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, PropagationPolicy};
use model::NextCommand;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info::QUEUE;
use crate::cluster::wait::Deadline;
use crate::commands::change::deletion::{self, Flags, Method};
use crate::diagnosis::queue::deletion::{retain, until_gone, until_released};
use crate::error::Result;
use crate::output::formats::{self, DryRun};
use crate::resource::deletion::request;
use crate::resource::queue::{self, Outside, outside};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Delete a queue with its messages, as its deletion policy says
  kubectl appdeploy queue delete orders

  # Delete the AppQueue, and keep the queue outside the cluster
  kubectl appdeploy queue delete orders --orphan

  # Show what would happen to the queues of a team
  kubectl appdeploy queue delete -l team=shop --dry-run=client

  # Delete all queues of a team without confirmation
  kubectl appdeploy queue delete -l team=shop --yes";

/// The flags of `queue delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    fate: Fate,
}

/// What happens to the queues outside the cluster.
#[derive(Debug, clap::Args)]
struct Fate {
    /// Keep the {many} outside the cluster, also if the operator does not answer
    #[arg(long)]
    orphan: bool,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    deletion::run(&args.flags, &args.fate, &QUEUE, kube, ui).await
}

impl Method for Fate {
    fn flags(&self) -> NextCommand {
        if self.orphan {
            "--orphan".into()
        } else {
            NextCommand::default()
        }
    }

    fn notes(&self, found: &[&DynamicObject]) -> Vec<String> {
        fates(found.iter().map(|object| queue::read(object)), self.orphan)
    }

    async fn delete(&self, cluster: &Cluster, object: &DynamicObject, dry_run: DryRun) -> Result<()> {
        if self.orphan {
            retain(cluster, object, dry_run).await?;
        }
        request(cluster, object, PropagationPolicy::Foreground, dry_run).await
    }

    async fn wait(&self, cluster: &Cluster, object: &DynamicObject, deadline: Deadline, ui: &mut Ui) -> Result<()> {
        ui.progress(&format!("waiting until {} is deleted", object.name_any()));
        if self.orphan {
            until_released(cluster, object, deadline, ui).await
        } else {
            until_gone(cluster, object, deadline, ui).await
        }
    }

    /// The finalizer is removed if the operator does not answer.
    fn always_waits(&self) -> bool {
        self.orphan
    }
}

/// Returns a sentence for the queues outside the cluster that are deleted, one for those that are kept, and one for those that do
/// not exist.
fn fates(all: impl Iterator<Item = AppQueue>, orphan: bool) -> Vec<String> {
    let (mut deleted, mut kept, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for one in all {
        let target = match outside(&one) {
            Outside::Deleted if !orphan => &mut deleted,
            Outside::Deleted | Outside::Kept => &mut kept,
            Outside::Absent => &mut absent,
        };
        target.push(queue::name(&one).to_owned());
    }
    let fates = [
        ("deleted with all messages", deleted),
        ("kept", kept),
        ("not created", absent),
    ];
    let fates = fates.into_iter().filter(|(_, names)| !names.is_empty());
    fates
        .map(|(fate, names)| format!("Outside the cluster, {fate}: {}", formats::some(&names)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::queue::tests::queue;
    use serde_json::json;

    #[test]
    fn what_happens_outside_the_cluster_is_printed() {
        let all = || {
            [
                queue("orders", &json!({}), &json!({})),
                queue(
                    "mails",
                    &json!({"deletionPolicy": "Retain"}),
                    &json!({"url": "http://sqs.example/1/mails"}),
                ),
                queue("lost", &json!({"deletionPolicy": "Retain"}), &json!({})),
            ]
            .into_iter()
        };
        assert_eq!(
            fates(all(), false),
            [
                "Outside the cluster, deleted with all messages: orders",
                "Outside the cluster, kept: mails",
                "Outside the cluster, not created: lost"
            ]
        );
        assert_eq!(
            fates(all(), true),
            [
                "Outside the cluster, kept: orders, mails",
                "Outside the cluster, not created: lost"
            ]
        );
        assert!(fates(std::iter::empty(), false).is_empty());
    }
}
