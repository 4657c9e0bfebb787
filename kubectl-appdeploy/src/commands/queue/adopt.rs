//! `kubectl appdeploy queue adopt`: manages existing queues that their AppQueues have not created.

use crd::{AdoptionPolicy, AppQueue};
use kube::ResourceExt as _;
use model::{NextCommand, command};
use serde_json::json;

use crate::cluster::confirm;
use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info::QUEUE;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::output::formats;
use crate::resource::queue;
use crate::resource::selection::{self, Selection};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Manage the existing queue that has the name of the queue orders
  kubectl appdeploy queue adopt orders

  # Adopt two queues without confirmation, and wait until they are ready
  kubectl appdeploy queue adopt orders invoices --yes --wait";

/// The flags of `queue adopt`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: Selection,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Runs the command.
pub async fn run(args: Args, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    args.which.require(&QUEUE, "adopt {name}")?;
    let cluster = kube.connect().await?.about(&QUEUE);
    let found = args.which.resolve(&cluster, "adopt {name}").await?;
    let is_named = !args.which.names.is_empty();
    if found.is_empty() {
        selection::nothing(&cluster, ui);
    }
    let is_found = !found.is_empty();
    let (mut objects, mut conflicts, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for object in found {
        match object.and_then(|object| Ok((adoption(&queue::read(&object), is_named)?, object))) {
            Ok((Adoption::Needed(conflict), object)) => {
                ui.note(&conflict);
                conflicts.push(object.name_any());
                objects.push(object);
            }
            Ok((Adoption::Allowed, object)) => objects.push(object),
            Ok((Adoption::NotNeeded, _)) => {}
            Err(error) => failures.push(error),
        }
    }
    if is_found && objects.is_empty() && failures.is_empty() {
        ui.eprintln("No queue needs to be adopted: nothing was changed.");
    }
    if args.flags.change.dry_run.is_real() && !args.yes && !conflicts.is_empty() {
        consent(&args, &cluster, &conflicts)?;
    }
    let verb = Verb {
        example: "adopt {name}",
        done: "adopted",
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            object["spec"]["adoptionPolicy"] = json!(AdoptionPolicy::IfExists);
            Ok(())
        },
    };
    let mut done = Vec::new();
    for object in objects {
        match change::one(&cluster, args.flags, &verb, Ok(object)).await {
            Ok(one) => done.push(one),
            Err(error) => failures.push(error),
        }
    }
    let selector = args.which.selector.as_deref();
    change::conclude(&cluster, selector, args.flags, &done, failures, ui).await
}

/// What `queue adopt` does with an AppQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Adoption {
    /// It allows the adoption, after a prompt. The text is about the conflict.
    Needed(String),
    /// Nothing: the adoption is allowed already.
    Allowed,
    /// Nothing: the AppQueue has no conflict or allows the adoption already, and was not named.
    NotNeeded,
}

/// Returns what to do with an AppQueue. One without a conflict is an error if it was named.
fn adoption(queue: &AppQueue, is_named: bool) -> Result<Adoption> {
    let summary = queue::summary(queue);
    if queue.spec.adoption_policy == Some(AdoptionPolicy::IfExists) {
        return Ok(if is_named {
            Adoption::Allowed
        } else {
            Adoption::NotNeeded
        });
    }
    if let Some(conflict) = queue::conflict(queue) {
        return Ok(Adoption::Needed(format!("{}: {conflict}", summary.name())));
    }
    if !is_named {
        return Ok(Adoption::NotNeeded);
    }
    let error = Error::failed(format!("{} has no conflict: nothing was changed", summary.title()));
    let why = match summary.explanation() {
        Some((why, _)) => why,
        None => "it manages its queue already".to_owned(),
    };
    let status = QUEUE.verb("status", summary.name());
    Err(error.why(why).next(status.and(command!("-n {}", summary.namespace()))))
}

/// Prompts before existing queues are changed.
fn consent(args: &Args, cluster: &Cluster, names: &[String]) -> Result<()> {
    let what = format!(
        "the existing {} of {}",
        if names.len() == 1 { "queue" } else { "queues" },
        formats::some(names)
    );
    let again = match (&args.which.selector, args.which.all) {
        (Some(selector), _) => command!("adopt -l {}", selector),
        (None, true) => "adopt --all".into(),
        (None, false) => names
            .iter()
            .fold(NextCommand::from("adopt"), |all, name| all.and(command!("{}", name))),
    };
    let again = NextCommand::from(QUEUE.command)
        .and(again)
        .and("--yes")
        .and(cluster.flag());
    let unasked = Error::usage(format!(
        "this gives {what} the settings of the spec: nothing was changed"
    ))
    .next(again.remark("to confirm"));
    confirm::ask(
        cluster,
        Some(&cluster.namespace),
        &format!("Manage {what}, with the settings of the spec?"),
        unasked,
        "nothing was changed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::queue::tests::{broken, queue};
    use crate::terminal::ui::RenderOptions;

    #[test]
    fn only_a_queue_with_a_conflict_is_adopted() {
        let none = json!({});
        let conflict = broken("QueueConflict", "a queue with this name exists", "");
        let taken = queue("orders", &none, &conflict);
        let needed = Adoption::Needed("orders: a queue with this name exists".to_owned());
        assert_eq!(adoption(&taken, true), Ok(needed));
        let allowed = queue("orders", &json!({"adoptionPolicy": "IfExists"}), &conflict);
        assert_eq!(adoption(&allowed, true), Ok(Adoption::Allowed));
        assert_eq!(adoption(&allowed, false), Ok(Adoption::NotNeeded));
        let unseen = queue("orders", &none, &none);
        assert_eq!(adoption(&unseen, false), Ok(Adoption::NotNeeded));
        insta::assert_snapshot!(adoption(&unseen, true).unwrap_err().text(&RenderOptions::default()), @r"
        error: appqueue.appdeploy.dev/orders has no conflict: nothing was changed
          why:  no operator has seen it yet
          next: kubectl appdeploy queue status orders -n default
        ");
    }
}
