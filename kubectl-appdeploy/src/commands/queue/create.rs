//! `kubectl appdeploy queue create`: an AppQueue, and the operator's right to read its credentials.

mod grant;
mod objects;
mod spec;

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info::QUEUE;
use crate::commands::change::creation::{self, Flags};
use crate::error::Result;
use crate::installation::operator::{self, Operator};
use crate::output::formats::DryRun;
use crate::resource::selection;
use crate::terminal::ui::Ui;

use objects::Objects;

const EXAMPLES: &str = "\
Examples:
  # Create a queue of Amazon SQS with the credentials in the Secret sqs
  kubectl appdeploy queue create orders --region=us-east-1 --credentials=sqs

  # Create a queue of another server with the same protocol, and wait for it
  kubectl appdeploy queue create orders --region=us-east-1 --credentials=sqs \\
    --endpoint=http://sqs.example:9324 --visibility-timeout=45s --wait

  # Move messages to the queue failed after five deliveries
  kubectl appdeploy queue create orders --region=us-east-1 --credentials=sqs \\
    --dead-letter=failed --max-receive-count=5

  # Print the queue, the Role and the RoleBinding instead of creating them
  kubectl appdeploy queue create orders --region=us-east-1 --credentials=sqs \\
    --dry-run=client -o yaml

  # Grant the operator the right to read the Secret of an existing queue
  kubectl appdeploy queue create orders --grant-only";

/// The flags of `queue create`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the queue
    name: String,
    /// Only grant the operator the right to read the Secret of an existing queue
    #[arg(long)]
    grant_only: bool,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    spec: spec::QueueArgs,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let name = selection::name(&QUEUE, &args.name)?.to_owned();
    let change = args.flags.change;
    // A dry run on this side needs no cluster, unless it is the only one to know the namespace or the Secret.
    let cluster = match kube.connect().await {
        Ok(cluster) => Some(cluster.about(&QUEUE)),
        Err(_) if change.dry_run == DryRun::Client && !args.grant_only => None,
        Err(error) => return Err(error),
    };
    let namespace = match &cluster {
        Some(cluster) => cluster.namespace.clone(),
        None => kube.namespace.clone().unwrap_or_else(|| "default".to_owned()),
    };
    let mut objects = match &cluster {
        Some(cluster) if args.grant_only => Objects::grant_only(cluster, &name).await?,
        _ => Objects::of(&args.spec, &name, &namespace)?,
    };
    let (Some(cluster), true) = (&cluster, change.dry_run != DryRun::Client) else {
        if kube.namespace.is_none() {
            // As with kubectl: the namespace of the context is for this command only, a file is for any.
            objects.for_any_namespace();
        }
        print_credentials(&args, None, ui).await;
        return change.print_results(ui, &objects.as_created());
    };
    // Everything is validated before anything is written.
    let mut done = objects.send(cluster, DryRun::Server).await?;
    print_credentials(&args, Some(cluster), ui).await;
    if change.dry_run.is_real() {
        done = objects.send(cluster, DryRun::None).await?;
    }
    change.print_results(ui, &done)?;
    creation::follow(cluster, &name, args.flags, ui).await
}

/// Prints which credentials are used if the command names none.
async fn print_credentials(args: &Args, cluster: Option<&Cluster>, ui: &mut Ui) {
    if args.grant_only || args.spec.credentials.is_some() {
        return;
    }
    let found = match cluster {
        Some(cluster) => Some(operator::find(cluster).await),
        None => None,
    };
    let (is_warning, text) = credentials(found.as_ref());
    if is_warning {
        ui.warn(text);
    } else {
        ui.note(text);
    }
}

/// Returns the sentence about the credentials of a queue that names none, and whether it is a warning.
fn credentials(operator: Option<&Operator>) -> (bool, &'static str) {
    match operator {
        Some(Operator::Installed(deployment, _)) if !operator::has_queue_credentials(deployment) => (
            true,
            "the queue will not be created: without --credentials, the operator uses its own credentials, and it has none \
             (its flag --queue-credentials)",
        ),
        _ => (
            false,
            "Without --credentials, the operator uses the credentials that an administrator gave it, for queues whose name \
             begins with the namespace and '_'.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn operator_without_credentials_is_a_warning() {
        let installed = |args: Value| {
            let deployment = json!({"spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "operator", "args": args}]}}}});
            Operator::Installed(Box::new(serde_json::from_value(deployment).unwrap()), None)
        };
        assert!(credentials(Some(&installed(json!([])))).0);
        assert!(!credentials(Some(&installed(json!(["--queue-credentials=/etc/sqs"])))).0);
        assert!(!credentials(Some(&Operator::Absent)).0 && !credentials(None).0);
    }
}
