//! `set env`.

use std::collections::BTreeSet;

use crd::Kind;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::core::NamespaceResourceScope;
use model::command;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::value::Others;
use crate::cluster::connection::{Cluster, KubeArgs};
use crate::cluster::kind_info;
use crate::commands::change::{self, Flags, Subresource, Verb};
use crate::error::{Error, Result};
use crate::output::formats;
use crate::resource::fields::{pod_of, put};
use crate::resource::selection::{self, Selection};
use crate::resource::workload::Workload;
use crate::terminal::ui::{Ui, clean};

const EXAMPLES: &str = "\
Examples:
  # Set one variable and remove another
  {command} set env {name} MODE=live DEBUG-

  # Set variables from a Secret or ConfigMap: one, one for each key, or some
  {command} set env {name} PASSWORD --from=secret/db
  {command} set env {name} --from=secret/db
  {command} set env {name} --from=secret/db \\
    --keys=user,password --prefix=DB_

  # List the variables
  {command} set env {name} --list";

const EXAMPLE: &str = "set env {name} MODE=live";

/// The flags of `set env`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of {many}, then variables: NAME=VALUE sets one, NAME- removes it, NAME reads it from --from
    #[arg(value_names = ["NAME", "VARIABLE"], num_args = 1..)]
    words: Vec<String>,
    #[command(flatten)]
    others: Others,
    /// Secret or ConfigMap with the values, like secret/db or configmap/settings
    #[arg(long, value_name = "KIND/NAME", value_parser = source, conflicts_with = "list")]
    from: Option<Source>,
    /// Keys to use; default: all
    #[arg(long, value_name = "KEYS", value_delimiter = ',', requires = "from")]
    keys: Vec<String>,
    /// Prefix of the variables that are named after keys
    #[arg(
        long,
        value_name = "TEXT",
        requires = "from",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,
    /// List the variables
    #[arg(long, conflicts_with_all = ["output", "wait", "timeout", "dry_run"])]
    list: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Where variables come from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    is_secret: bool,
    name: String,
}

fn source(text: &str) -> std::result::Result<Source, String> {
    let wrong = || "write it like secret/db or configmap/settings".to_owned();
    let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
    let is_secret = match kind {
        "secret" | "secrets" => true,
        "configmap" | "configmaps" | "cm" => false,
        _ => return Err(wrong()),
    };
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(Source {
        is_secret,
        name: name.to_owned(),
    })
}

/// The change of a variable.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Set(Value),
    Remove(String),
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let (mut names, mut changes) = split(&args.words)?;
    let mut wanted = args.keys.clone();
    if args.from.is_some() {
        // Without a value these can only be variables: no object has such a name.
        wanted.extend(names.extract_if(.., |word| !is_name(word)));
    }
    let which = args.others.select(names)?;
    let example = || kind_info::of(kind).example(EXAMPLE);
    if args.list && !changes.is_empty() {
        return Err(Error::usage(
            "--list shows variables and changes none: leave out one of them",
        ));
    }
    if !args.list && args.from.is_none() && changes.is_empty() {
        // The last of several words is more likely a variable than an app.
        let error = match args.words.as_slice() {
            [_, .., last] => Error::usage(format!(
                "{last} is not a variable: write {last}=VALUE, or {last}- to remove it"
            )),
            _ => Error::usage("no variable given: use NAME=VALUE, or NAME- to remove one"),
        };
        return Err(error.next(example()));
    }
    let cluster = kube.connect().await?.about(kind);
    if args.list {
        return list(&cluster, &which, ui).await;
    }
    if let Some(from) = &args.from {
        let keys = from.choose(&wanted, &args.prefix, keys(&cluster, from).await, &cluster)?;
        changes.extend(keys.iter().map(|key| Change::Set(from.variable(&args.prefix, key))));
    }
    if which.names.len() > 1 {
        // A misspelled variable looks like the name of an object, so a missing object fails the command before any change.
        let found = which.resolve(&cluster, EXAMPLE).await?;
        if let Some(Err(error)) = found.into_iter().find(Result::is_err) {
            return Err(error.why("nothing was changed"));
        }
    }
    let verb = Verb {
        example: EXAMPLE,
        done: "env updated",
        subresource: Subresource::None,
        guarded: false,
        edit: &|object| {
            edit(pod_of(kind, object), &changes);
            Ok(())
        },
    };
    change::run(&cluster, &which, args.flags, verb, ui).await
}

/// Splits the words: a name of an object has no `=` and does not end in `-`.
fn split(words: &[String]) -> Result<(Vec<String>, Vec<Change>)> {
    let (mut names, mut changes) = (Vec::new(), Vec::new());
    for word in words {
        match (word.split_once('='), word.strip_suffix('-')) {
            (Some(("", _)), _) | (None, Some("")) => {
                return Err(Error::usage(format!(
                    "{word} is not a variable: write NAME=VALUE, or NAME- to remove one"
                )));
            }
            (Some((name, value)), _) => changes.push(Change::Set(json!({"name": name, "value": value}))),
            (None, Some(name)) => changes.push(Change::Remove(name.to_owned())),
            (None, None) => names.push(word.clone()),
        }
    }
    Ok((names, changes))
}

/// Whether a word may be the name of an object, with or without its kind.
fn is_name(word: &str) -> bool {
    word.chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-./".contains(c))
}

fn name_of(variable: &Value) -> &str {
    variable["name"].as_str().unwrap_or_default()
}

/// Changes variables in place: a later one may refer to an earlier one.
fn edit(pod: &mut Value, changes: &[Change]) {
    let mut all: Vec<Value> = pod["env"].as_array().cloned().unwrap_or_default();
    for change in changes {
        match change {
            Change::Remove(name) => all.retain(|variable| name_of(variable) != name),
            Change::Set(variable) => match all.iter_mut().find(|known| name_of(known) == name_of(variable)) {
                Some(known) => known.clone_from(variable),
                None => all.push(variable.clone()),
            },
        }
    }
    put(pod, "env", (!all.is_empty()).then_some(Value::Array(all)));
}

impl Source {
    const fn word(&self) -> &'static str {
        if self.is_secret { "secret" } else { "configmap" }
    }

    /// Returns the keys to import: all keys, or those that are named by key or by variable. If the object could not be read,
    /// returns the error, unless keys are named and only the right to read is missing.
    fn choose(
        &self,
        wanted: &[String],
        prefix: &str,
        read: Result<Vec<String>>,
        cluster: &Cluster,
    ) -> Result<Vec<String>> {
        let known = match read {
            Err(error) if error.is_forbidden() && !wanted.is_empty() => return Ok(wanted.to_vec()),
            read => read?,
        };
        if wanted.is_empty() {
            return Ok(known);
        }
        let key = |word: &String| {
            let same = known.iter().find(|key| *key == word);
            let same = same.or_else(|| known.iter().find(|key| variable_name(prefix, key) == *word));
            same.cloned().ok_or_else(|| {
                let source = format!("{}/{}", self.word(), self.name);
                Error::failed(format!("{source} has no key {word}: nothing was changed"))
                    .why(format!("it has {}", formats::some(&known)))
                    .next(command!("kubectl describe {}", source).and(cluster.flag()))
            })
        };
        wanted.iter().map(key).collect()
    }

    /// Returns the variable for a key.
    fn variable(&self, prefix: &str, key: &str) -> Value {
        let field = if self.is_secret {
            "secretKeyRef"
        } else {
            "configMapKeyRef"
        };
        json!({"name": variable_name(prefix, key), "valueFrom": {field: {"name": self.name, "key": key}}})
    }
}

/// Returns the name of the variable for a key, as kubectl names it: `tls.key` is `TLS_KEY`.
fn variable_name(prefix: &str, key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = key.to_uppercase().chars().map(plain).collect();
    format!("{prefix}{name}")
}

/// Returns the keys of a Secret or ConfigMap.
async fn keys(cluster: &Cluster, from: &Source) -> Result<Vec<String>> {
    let keys: BTreeSet<String> = if from.is_secret {
        let secret: Secret = read(cluster, from).await?;
        secret.data.unwrap_or_default().into_keys().collect()
    } else {
        let map: ConfigMap = read(cluster, from).await?;
        map.data.unwrap_or_default().into_keys().collect()
    };
    if keys.is_empty() {
        return Err(Error::failed(format!(
            "{}/{} has no keys: nothing was changed",
            from.word(),
            from.name
        )));
    }
    Ok(keys.into_iter().collect())
}

async fn read<K>(cluster: &Cluster, from: &Source) -> Result<K>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    cluster.call(api.get(&from.name)).await.map_err(|error| {
        if error.is_forbidden() {
            error.next("with --keys=NAME,NAME nothing must be read")
        } else if error.is_not_found() {
            let kind = if from.is_secret { "secrets" } else { "configmaps" };
            error.next(command!("kubectl get {}", kind).and(cluster.flag()))
        } else {
            error
        }
    })
}

async fn list(cluster: &Cluster, which: &Selection, ui: &mut Ui) -> Result<()> {
    let found = which.resolve(cluster, "set env {name} --list").await?;
    if found.is_empty() {
        selection::nothing(cluster, ui);
    }
    let mut failures = Vec::new();
    for object in found {
        match object {
            Ok(object) => {
                let workload = Workload::read(cluster.kind, &object);
                let mut value = formats::presentable(&object);
                ui.print(&listed(&workload.title(), pod_of(cluster.kind, &mut value)))?;
            }
            Err(error) => failures.push(error),
        }
    }
    selection::conclude(failures, ui)
}

/// Prints variables as kubectl does, with values that are not quoted for a shell.
fn listed(title: &str, pod: &Value) -> String {
    let mut lines = vec![format!("# {title}")];
    for variable in pod["env"].as_array().into_iter().flatten() {
        let name = name_of(variable);
        let from = |field: &str, word: &str| {
            let key = variable["valueFrom"].get(field)?;
            let text = |field: &str| key[field].as_str().unwrap_or_default().to_owned();
            Some(format!("# {name} from {word} {}, key {}", text("name"), text("key")))
        };
        let line = from("secretKeyRef", "secret")
            .or_else(|| from("configMapKeyRef", "configmap"))
            .unwrap_or_else(|| format!("{name}={}", variable["value"].as_str().unwrap_or_default()));
        lines.push(clean(&line));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;

    fn changes(words: &[&str]) -> (Vec<String>, Vec<Change>) {
        split(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn variables_keep_their_order() {
        let mut pod = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "C", "valueFrom": {"new": {}}}]});
        let (names, changes) = changes(&["shop", "A=2=3", "B-", "D=", "X-"]);
        assert_eq!(names, ["shop"]);
        edit(&mut pod, &changes);
        assert_eq!(
            pod,
            json!({"env": [{"name": "A", "value": "2=3"}, {"name": "C", "valueFrom": {"new": {}}}, {"name": "D", "value": ""}]})
        );
        edit(&mut pod, &["A", "C", "D"].map(|name| Change::Remove(name.to_owned())));
        assert_eq!(pod, json!({}));
    }

    #[test]
    fn word_without_a_meaning_is_rejected() {
        for word in ["-", "=1"] {
            let error = split(&[word.to_owned()]).unwrap_err();
            assert!(
                error.text(&RenderOptions::default()).contains("is not a variable"),
                "{word}"
            );
        }
    }

    #[test]
    fn key_becomes_a_variable() {
        assert_eq!(
            source("secret/db").unwrap().variable("DB_", "tls.key"),
            json!({"name": "DB_TLS_KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "tls.key"}}})
        );
        for wrong in ["db", "pod/db", "secret/"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_are_shown_as_a_shell_takes_them() {
        let pod = json!({"env": [{"name": "A", "value": "1\u{1b}"}, source("secret/db").unwrap().variable("", "pass"), source("cm/s").unwrap().variable("", "k")]});
        insta::assert_snapshot!(listed("appdeploy.appdeploy.dev/shop", &pod), @r"
        # appdeploy.appdeploy.dev/shop
        A=1 
        # PASS from secret db, key pass
        # K from configmap s, key k
        ");
    }
}
