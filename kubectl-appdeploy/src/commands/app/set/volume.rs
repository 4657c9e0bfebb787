//! `set volume`.

use crd::{Kind, Volume};
use serde_json::{Value, json};

use super::value::Others;
use crate::cluster::connection::KubeArgs;
use crate::cluster::kind_info;
use crate::commands::app::volume;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::resource::fields::{non_empty, pod_of, put};
use crate::terminal::ui::Ui;

const EXAMPLES: &str = "\
Examples:
  # Mount the keys of a ConfigMap as files
  {command} set volume {name} configmap/shop:/etc/shop

  # Mount a Secret as the volume keys, and remove the volume cache
  {command} set volume {name} keys=secret/shop-keys:/keys cache-

  # Add a directory for temporary files
  {command} set volume {name} emptydir:/tmp";

const EXAMPLE: &str = "set volume {name} configmap/shop:/etc/shop";

/// The flags of `set volume`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of {many}, then volumes: [NAME=]SOURCE:PATH sets one, NAME- removes it
    #[arg(value_names = ["NAME", "VOLUME"], num_args = 1..)]
    words: Vec<String>,
    #[command(flatten)]
    others: Others,
    #[command(flatten)]
    flags: Flags,
}

/// The change of a volume.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Set(Box<Volume>),
    Remove(String),
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let example = || kind_info::of(kind).example(EXAMPLE);
    let (names, changes) = split(&args.words).map_err(|error| error.next(example()))?;
    if changes.is_empty() {
        return Err(Error::usage("no volume given: use SOURCE:PATH, or NAME- to remove one").next(example()));
    }
    let which = args.others.select(names)?;
    let cluster = kube.connect().await?.about(kind);
    let verb = Verb {
        example: EXAMPLE,
        done: "volumes updated",
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            edit(pod_of(kind, object), &changes);
            Ok(())
        },
    };
    change::run(&cluster, &which, args.flags, verb, ui).await
}

/// Splits the words: a name of an object has no `:` and no `=`, and does not end in `-`.
fn split(words: &[String]) -> Result<(Vec<String>, Vec<Change>)> {
    let (mut names, mut changes) = (Vec::new(), Vec::new());
    for word in words {
        match word.strip_suffix('-') {
            _ if word.contains([':', '=']) => {
                let volume =
                    volume::parse(word).map_err(|why| Error::usage(format!("invalid volume {word:?}: {why}")))?;
                changes.push(Change::Set(Box::new(volume)));
            }
            Some(name) => changes.push(Change::Remove(name.to_owned())),
            None => names.push(word.clone()),
        }
    }
    Ok((names, changes))
}

/// Changes volumes by name.
fn edit(pod: &mut Value, changes: &[Change]) {
    let mut all: Vec<Value> = pod["volumes"].as_array().cloned().unwrap_or_default();
    for change in changes {
        match change {
            Change::Remove(name) => all.retain(|volume| volume["name"] != **name),
            Change::Set(volume) => match all.iter_mut().find(|known| known["name"] == *volume.name) {
                Some(known) => *known = json!(volume),
                None => all.push(json!(volume)),
            },
        }
    }
    put(pod, "volumes", non_empty(Value::Array(all)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(pod: &Value, words: &[&str]) -> Value {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        let (names, changes) = split(&words).unwrap();
        assert_eq!(names, ["shop"]);
        let mut pod = pod.clone();
        edit(&mut pod, &changes);
        pod
    }

    #[test]
    fn volumes_are_set_and_removed_by_name() {
        let pod = json!({"image": "a"});
        let one = changed(&pod, &["shop", "configmap/a:/a", "b=emptydir:/b"]);
        assert_eq!(
            one["volumes"],
            json!([{"name": "a", "mountPath": "/a", "configMap": {"name": "a"}},
                {"name": "b", "mountPath": "/b", "emptyDir": {}}])
        );
        let other = changed(&one, &["shop", "b=secret/b:/c", "a-"]);
        assert_eq!(
            other["volumes"],
            json!([{"name": "b", "mountPath": "/c", "secret": {"secretName": "b"}}])
        );
        assert_eq!(changed(&other, &["shop", "b-"]), pod);
        assert!(split(&["shop".to_owned(), "a:/b".to_owned()]).is_err());
    }
}
