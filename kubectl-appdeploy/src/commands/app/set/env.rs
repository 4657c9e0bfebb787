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
use crate::resource::env_source::EnvSource;
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

  # Set a variable for each key that a Secret has when a pod starts
  {command} set env {name} --env-from=secret/db

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
    #[arg(long, value_name = "KIND/NAME", value_parser = EnvSource::parse, conflicts_with = "list")]
    from: Option<EnvSource>,
    /// Secret or ConfigMap whose keys at the start of a pod become variables; KIND/NAME- removes it. Can be repeated
    #[arg(long, value_name = "KIND/NAME", value_parser = all_keys, conflicts_with = "list")]
    env_from: Vec<Change>,
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

/// The change of a variable, or of the variables from an object.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Set(Value),
    Remove(String),
    SetAll(EnvSource),
    RemoveAll(EnvSource),
}

/// Reads an object whose keys are set as variables, or, with `-` at its end, no longer.
fn all_keys(text: &str) -> std::result::Result<Change, String> {
    match text.strip_suffix('-') {
        Some(text) => EnvSource::parse(text).map(Change::RemoveAll),
        None => EnvSource::parse(text).map(Change::SetAll),
    }
}

/// Runs the command.
pub async fn run(args: Args, kind: Kind, kube: &KubeArgs, ui: &mut Ui) -> Result<()> {
    let (mut names, mut changes) = split(&args.words)?;
    changes.extend(args.env_from.iter().cloned());
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
        let keys = choose(from, &wanted, &args.prefix, keys(&cluster, from).await, &cluster)?;
        changes.extend(keys.iter().map(|key| Change::Set(variable(from, &args.prefix, key))));
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
    let list = |field: &str| pod[field].as_array().cloned().unwrap_or_default();
    let (mut all, mut objects) = (list("env"), list("envFrom"));
    for change in changes {
        match change {
            Change::Remove(name) => all.retain(|variable| name_of(variable) != name),
            Change::Set(variable) => match all.iter_mut().find(|known| name_of(known) == name_of(variable)) {
                Some(known) => known.clone_from(variable),
                None => all.push(variable.clone()),
            },
            Change::SetAll(source) => {
                let entry = json!(source.all_keys());
                if !objects.contains(&entry) {
                    objects.push(entry);
                }
            }
            Change::RemoveAll(source) => objects.retain(|entry| object_of(entry).as_ref() != Some(source)),
        }
    }
    for (field, list) in [("env", all), ("envFrom", objects)] {
        put(pod, field, (!list.is_empty()).then_some(Value::Array(list)));
    }
}

/// Returns the object of an entry of `envFrom`.
fn object_of(entry: &Value) -> Option<EnvSource> {
    EnvSource::of(&serde_json::from_value(entry.clone()).ok()?)
}

/// Returns the keys to import: all keys, or those that are named by key or by variable. If the object could not be read,
/// returns the error, unless keys are named and only the right to read is missing.
fn choose(
    source: &EnvSource,
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
            Error::failed(format!("{source} has no key {word}: nothing was changed"))
                .why(format!("it has {}", formats::some(&known)))
                .next(command!("kubectl describe {}", source).and(cluster.flag()))
        })
    };
    wanted.iter().map(key).collect()
}

/// Returns the variable for a key.
fn variable(source: &EnvSource, prefix: &str, key: &str) -> Value {
    let field = if source.is_secret {
        "secretKeyRef"
    } else {
        "configMapKeyRef"
    };
    json!({"name": variable_name(prefix, key), "valueFrom": {field: {"name": source.name, "key": key}}})
}

/// Returns the name of the variable for a key, as kubectl names it: `tls.key` is `TLS_KEY`.
fn variable_name(prefix: &str, key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = key.to_uppercase().chars().map(plain).collect();
    format!("{prefix}{name}")
}

/// Returns the keys of a Secret or ConfigMap.
async fn keys(cluster: &Cluster, from: &EnvSource) -> Result<Vec<String>> {
    let keys: BTreeSet<String> = if from.is_secret {
        let secret: Secret = read(cluster, from).await?;
        secret.data.unwrap_or_default().into_keys().collect()
    } else {
        let map: ConfigMap = read(cluster, from).await?;
        map.data.unwrap_or_default().into_keys().collect()
    };
    if keys.is_empty() {
        return Err(Error::failed(format!("{from} has no keys: nothing was changed")));
    }
    Ok(keys.into_iter().collect())
}

async fn read<K>(cluster: &Cluster, from: &EnvSource) -> Result<K>
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
    for entry in pod["envFrom"].as_array().into_iter().flatten() {
        let Some(source) = object_of(entry) else { continue };
        let prefix = entry["prefix"].as_str().map(|prefix| format!(", with prefix {prefix}"));
        let line = format!(
            "# all keys of {} {}{}",
            source.word(),
            source.name,
            prefix.unwrap_or_default()
        );
        lines.push(clean(&line));
    }
    for variable in pod["env"].as_array().into_iter().flatten() {
        let name = name_of(variable);
        let from = |field: &str, word: &str| {
            let key = variable["valueFrom"].get(field)?;
            let text = |field: &str| key[field].as_str().unwrap_or_default().to_owned();
            Some(format!("# {name} from {word} {}, key {}", text("name"), text("key")))
        };
        let field = || {
            let path = variable.pointer("/valueFrom/fieldRef/fieldPath")?.as_str()?;
            Some(format!("# {name} from field {path}"))
        };
        let line = from("secretKeyRef", "secret")
            .or_else(|| from("configMapKeyRef", "configmap"))
            .or_else(field)
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
            variable(&EnvSource::parse("secret/db").unwrap(), "DB_", "tls.key"),
            json!({"name": "DB_TLS_KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "tls.key"}}})
        );
    }

    #[test]
    fn all_keys_of_an_object_are_set_once_and_removed() {
        let mut pod = json!({"envFrom": [{"prefix": "A_", "secretRef": {"name": "db"}}]});
        let change = |text: &str| all_keys(text).unwrap();
        edit(&mut pod, &[change("secret/db"), change("cm/db"), change("secret/db")]);
        let all = json!([{"prefix": "A_", "secretRef": {"name": "db"}}, {"secretRef": {"name": "db"}}, {"configMapRef": {"name": "db"}}]);
        assert_eq!(pod, json!({"envFrom": all}));
        edit(&mut pod, &[change("secret/db-")]);
        assert_eq!(pod, json!({"envFrom": [{"configMapRef": {"name": "db"}}]}));
        edit(&mut pod, &[change("configmap/db-")]);
        assert_eq!(pod, json!({}));
    }

    #[test]
    fn variables_are_shown_as_a_shell_takes_them() {
        let of = |source: &str, key: &str| variable(&EnvSource::parse(source).unwrap(), "", key);
        let ip = json!({"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
        let pod = json!({"env": [{"name": "A", "value": "1\u{1b}"}, of("secret/db", "pass"), of("cm/s", "k"), ip],
            "envFrom": [{"prefix": "DB_", "secretRef": {"name": "db"}}, {"configMapRef": {"name": "s"}}]});
        insta::assert_snapshot!(listed("appdeploy.appdeploy.dev/shop", &pod), @r"
        # appdeploy.appdeploy.dev/shop
        # all keys of secret db, with prefix DB_
        # all keys of configmap s
        A=1 
        # PASS from secret db, key pass
        # K from configmap s, key k
        # IP from field status.podIP
        ");
    }
}
