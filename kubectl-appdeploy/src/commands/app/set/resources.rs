//! `set resources`.

use crd::{Kind, PodFields};
use model::admit;
use serde_json::{Value, json};

use super::value::Others;
use crate::cluster::connection::KubeArgs;
use crate::cluster::kind_info;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::output::quantity;
use crate::resource::fields::{non_empty, pod_of, put};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Set requests and limits
  {command} set resources {name} \\
    --requests=cpu=100m,memory=64Mi --limits=memory=128Mi

  # Remove the CPU limit and keep the rest
  {command} set resources {name} --limits=cpu-";

/// The flags of `set resources`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of {many}
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    others: Others,
    /// Resource requests of each pod, like cpu=100m,memory=64Mi; cpu- removes one
    #[arg(long, value_name = "AMOUNTS", value_delimiter = ',', value_parser = amount)]
    requests: Vec<Amount>,
    /// Resource limits of each pod, like memory=128Mi; memory- removes one
    #[arg(long, value_name = "AMOUNTS", value_delimiter = ',', value_parser = amount)]
    limits: Vec<Amount>,
    #[command(flatten)]
    flags: Flags,
}

/// A resource, and how much of it; nothing to remove it.
type Amount = (String, Option<String>);

fn amount(text: &str) -> std::result::Result<Amount, String> {
    let wrong = || "write it like cpu=100m, or cpu- to remove it".to_owned();
    let amount = match text.split_once('=') {
        Some((_, "")) => return Err(wrong()),
        Some((_, amount)) if quantity::milli(amount).is_none() => {
            return Err(format!("{amount:?} is not a quantity like 100m or 64Mi"));
        }
        Some((name, amount)) => (name, Some(amount.to_owned())),
        None => (text.strip_suffix('-').ok_or_else(wrong)?, None),
    };
    if amount.0.is_empty() {
        return Err(wrong());
    }
    Ok((amount.0.to_owned(), amount.1))
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    const EXAMPLE: &str = "set resources {name} --limits=memory=128Mi";
    if args.requests.is_empty() && args.limits.is_empty() {
        return Err(
            Error::usage("no resource given: use --requests or --limits").next(kind_info::of(kind).example(EXAMPLE))
        );
    }
    let which = args.others.select(args.names.clone())?;
    let cluster = kube.connect().await?.about(kind);
    for warning in tiny(&args, kind) {
        ui.add_warning(warning);
    }
    let verb = Verb {
        example: EXAMPLE,
        done: "resource requirements updated",
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            edit(pod_of(kind, object), &args.requests, &args.limits);
            Ok(())
        },
    };
    change::run(&cluster, &which, args.flags, verb, ui).await
}

/// Returns the warnings that the webhook, if it exists, sends as well.
fn tiny(args: &Args, kind: Kind) -> Vec<String> {
    let of = |amounts: &[Amount]| {
        let given = amounts
            .iter()
            .filter_map(|(name, amount)| Some((name.clone(), crd::Quantity(amount.clone()?))));
        given.collect()
    };
    let mut pod = PodFields::default();
    pod.container.resources = Some(crd::Resources {
        requests: of(&args.requests),
        limits: of(&args.limits),
    });
    admit::tiny_amounts(&pod, admit::pod_path(kind))
}

fn edit(pod: &mut Value, requests: &[Amount], limits: &[Amount]) {
    let mut resources = pod.get("resources").cloned().unwrap_or_else(|| json!({}));
    for (part, amounts) in [("requests", requests), ("limits", limits)] {
        let mut all = resources.get(part).cloned().unwrap_or_else(|| json!({}));
        for (name, amount) in amounts {
            put(&mut all, name, amount.as_ref().map(|amount| json!(amount)));
        }
        put(&mut resources, part, non_empty(all));
    }
    put(pod, "resources", non_empty(resources));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_set_and_removed_separately() {
        let amounts = |texts: &[&str]| -> Vec<Amount> { texts.iter().map(|text| amount(text).unwrap()).collect() };
        let mut pod = json!({"image": "a", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}});
        edit(&mut pod, &amounts(&["cpu=100m"]), &amounts(&["cpu-", "memory=2Gi"]));
        assert_eq!(
            pod["resources"],
            json!({"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}})
        );
        edit(&mut pod, &amounts(&["cpu-"]), &amounts(&["memory-"]));
        assert_eq!(pod, json!({"image": "a"}));
        for wrong in ["cpu", "=1", "cpu=", "-", "memory=banana", "memory=1MB"] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }
}
