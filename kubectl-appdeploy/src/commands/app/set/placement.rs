//! `set placement`.

use crd::{Kind, TaintEffect, Toleration};
use serde_json::{Value, json};

use super::value::Others;
use crate::cluster::connection::KubeArgs;
use crate::cluster::kind_info;
use crate::commands::app::toleration;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::resource::fields::{non_empty, pod_of, put};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Run the pods on nodes with a label, and tolerate a taint of these nodes
  {command} set placement {name} \\
    --node-selector=disktype=ssd --toleration=dedicated=batch:NoSchedule

  # Remove a label, and all tolerations of a taint
  {command} set placement {name} \\
    --node-selector=disktype- --toleration=dedicated-";

const EXAMPLE: &str = "set placement {name} --node-selector=disktype=ssd";

/// The flags of `set placement`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of {many}
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    others: Others,
    /// Label that a node must have to run the pods, like disktype=ssd; disktype- removes it. Can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    node_selector: Vec<Label>,
    /// Taint of nodes that the pods tolerate, like dedicated=batch:NoSchedule; dedicated- removes all tolerations of the key,
    /// dedicated:NoSchedule- the one with this effect. Can be repeated
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = change)]
    toleration: Vec<Change>,
    #[command(flatten)]
    flags: Flags,
}

/// The key of a label, and its value; nothing to remove it.
type Label = (String, Option<String>);

fn label(text: &str) -> std::result::Result<Label, String> {
    let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => (key, Some(value.to_owned())),
        (None, Some(key)) => (key, None),
        (None, None) => ("", None),
    };
    if key.is_empty() {
        return Err("write it like disktype=ssd, or disktype- to remove it".to_owned());
    }
    Ok((key.to_owned(), value))
}

/// The change of tolerations.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Set(Toleration),
    /// Removes those of a key, or the one with this effect.
    Remove(String, Option<TaintEffect>),
}

fn change(text: &str) -> std::result::Result<Change, String> {
    let Some(taint) = text.strip_suffix('-').filter(|taint| !taint.contains('=')) else {
        return toleration::parse(text).map(Change::Set);
    };
    let (key, effect) = toleration::effect_of(taint)?;
    if key.is_empty() {
        return Err(toleration::wrong());
    }
    Ok(Change::Remove(key.to_owned(), effect))
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    if args.node_selector.is_empty() && args.toleration.is_empty() {
        return Err(Error::usage("no placement given: use --node-selector or --toleration")
            .next(kind_info::of(kind).example(EXAMPLE)));
    }
    let which = args.others.select(args.names)?;
    let cluster = kube.connect().await?.about(kind);
    let verb = Verb {
        example: EXAMPLE,
        done: "placement updated",
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            edit(pod_of(kind, object), &args.node_selector, &args.toleration);
            Ok(())
        },
    };
    change::run(&cluster, &which, args.flags, verb, ui).await
}

fn edit(pod: &mut Value, labels: &[Label], changes: &[Change]) {
    let mut placement = pod.get("placement").cloned().unwrap_or_else(|| json!({}));
    let mut selector = placement.get("nodeSelector").cloned().unwrap_or_else(|| json!({}));
    for (key, value) in labels {
        put(&mut selector, key, value.as_ref().map(|value| json!(value)));
    }
    let mut tolerations: Vec<Value> = placement["tolerations"].as_array().cloned().unwrap_or_default();
    for change in changes {
        match change {
            Change::Set(toleration) => {
                let new = json!(toleration);
                let same = |known: &&mut Value| known["key"] == new["key"] && known["effect"] == new["effect"];
                match tolerations.iter_mut().find(same) {
                    Some(known) => *known = new,
                    None => tolerations.push(new),
                }
            }
            Change::Remove(key, effect) => tolerations.retain(|known| {
                let is_effect = effect.is_none_or(|effect| known["effect"] == effect.as_str());
                known["key"] != **key || !is_effect
            }),
        }
    }
    put(&mut placement, "nodeSelector", non_empty(selector));
    put(&mut placement, "tolerations", non_empty(Value::Array(tolerations)));
    put(pod, "placement", non_empty(placement));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(pod: &Value, labels: &[&str], changes: &[&str]) -> Value {
        let labels: Vec<Label> = labels.iter().map(|text| label(text).unwrap()).collect();
        let changes: Vec<Change> = changes.iter().map(|text| change(text).unwrap()).collect();
        let mut pod = pod.clone();
        edit(&mut pod, &labels, &changes);
        pod
    }

    #[test]
    fn labels_and_tolerations_are_set_and_removed_by_key() {
        let pod = json!({"image": "a"});
        let labels = ["disktype=ssd", "zone=a"];
        let one = changed(
            &pod,
            &labels,
            &["gpu", "dedicated=a:NoSchedule", "dedicated=a:NoExecute"],
        );
        assert_eq!(
            one["placement"],
            json!({"nodeSelector": {"disktype": "ssd", "zone": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"},
                {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
                {"key": "dedicated", "value": "a", "effect": "NoExecute"}]})
        );
        let other = changed(
            &one,
            &["zone-", "disktype=hdd"],
            &["dedicated:NoExecute-", "dedicated:NoSchedule", "gpu=b"],
        );
        assert_eq!(
            other["placement"],
            json!({"nodeSelector": {"disktype": "hdd"}, "tolerations": [{"key": "gpu", "value": "b"},
                {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]})
        );
        assert_eq!(changed(&other, &["disktype-"], &["gpu-", "dedicated-"]), pod);
        assert_eq!(
            changed(&one, &[], &["dedicated-"])["placement"]["tolerations"],
            json!([{"key": "gpu", "operator": "Exists"}])
        );
        for wrong in ["", "-", "disktype", "=ssd"] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "-", ":NoSchedule-", "gpu:Never-", "gpu:-"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}
