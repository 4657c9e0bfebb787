//! `kubectl appdeploy queue delete`.

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
use crate::resource::queue::{Outside, by_outside};
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
    method: QueueMethod,
}

/// What happens to the queues outside the cluster.
#[derive(Debug, clap::Args)]
struct QueueMethod {
    /// Keep the {many} outside the cluster, also if the operator does not answer
    #[arg(long)]
    orphan: bool,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    deletion::run(&args.flags, &args.method, &QUEUE, kube, ui).await
}

impl Method for QueueMethod {
    fn flags(&self) -> NextCommand {
        if self.orphan {
            "--orphan".into()
        } else {
            NextCommand::default()
        }
    }

    fn notes(&self, found: &[&DynamicObject]) -> Vec<String> {
        effects(found, self.orphan)
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
fn effects(found: &[&DynamicObject], orphan: bool) -> Vec<String> {
    let sentence = |(group, objects): (Outside, Vec<&DynamicObject>)| {
        let effect = match group {
            Outside::Deleted => "deleted with all messages",
            Outside::Kept => "kept",
            Outside::Absent => "not created",
        };
        let names: Vec<String> = objects.iter().map(|object| object.name_any()).collect();
        format!("Outside the cluster, {effect}: {}", formats::some(&names))
    };
    by_outside(found.iter().copied(), orphan)
        .into_iter()
        .map(sentence)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::queue::tests::object;
    use serde_json::json;

    #[test]
    fn what_happens_outside_the_cluster_is_printed() {
        let retain = json!({"deletionPolicy": "Retain"});
        let known = json!({"url": "http://sqs.example/1/mails"});
        let all = [
            object("orders", &json!({}), &json!({})),
            object("mails", &retain, &known),
            object("lost", &retain, &json!({})),
        ];
        let all: Vec<&DynamicObject> = all.iter().collect();
        assert_eq!(
            effects(&all, false),
            [
                "Outside the cluster, deleted with all messages: orders",
                "Outside the cluster, kept: mails",
                "Outside the cluster, not created: lost"
            ]
        );
        assert_eq!(
            effects(&all, true),
            [
                "Outside the cluster, kept: orders, mails",
                "Outside the cluster, not created: lost"
            ]
        );
        assert!(effects(&[], false).is_empty());
    }
}
