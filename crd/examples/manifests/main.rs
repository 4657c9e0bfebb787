//! Writes the CustomResourceDefinitions as YAML into a folder. `make manifests` writes them into `config/crd`. The optional
//! second argument is the file with the revision of the schema, which is updated.

mod revision;

use std::path::Path;

use anyhow::Context as _;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};

use revision::Revision;

/// Prevents tools that sync from Git from deleting the definitions, and with them all apps, when they are no longer in Git.
const KEPT: [(&str, &str); 2] = [
    ("argocd.argoproj.io/sync-options", "Prune=false,Delete=false"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("which folder?")?;
    let mut definitions = Vec::new();
    for crd in [crd::AppDeploy::crd(), crd::PodSet::crd(), crd::AppQueue::crd()] {
        definitions.push(unwrapped(without_nulls(whole_numbers(serde_json::to_value(crd)?))));
    }
    let recorded: Revision = include_str!("../../revision").parse()?;
    let revision = recorded.of(&definitions);
    if let Some(file) = arguments.next() {
        std::fs::write(file, revision.to_string())?;
    }
    for mut definition in definitions {
        let annotations = &mut definition["metadata"]["annotations"];
        *annotations = json!({crd::annotation::SCHEMA_REVISION: revision.number.to_string()});
        for (name, value) in KEPT {
            annotations[name] = value.into();
        }
        let plural = definition["spec"]["names"]["plural"].as_str().context("no plural")?;
        let file = Path::new(&folder).join(format!("{plural}.yaml"));
        std::fs::write(file, serde_yaml::to_string(&definition)?)?;
    }
    Ok(())
}

/// Writes `65535.0` as `65535`, as the API server does. The types of the schema have floating-point limits.
fn whole_numbers(value: Value) -> Value {
    match value {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number below 2^53 is exact in both"
        )]
        Value::Number(n) => match n.as_f64() {
            Some(f) if f.fract() == 0.0 && f.abs() < 9e15 => Value::from(f as i64),
            _ => Value::Number(n),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(map) => map.into_iter().map(|(k, v)| (k, whole_numbers(v))).collect(),
        other => other,
    }
}

/// Removes `nullable`, which the derived schemas have for each optional field. Without it the API server drops a null
/// instead of storing it, so that no manager owns a field that has no value.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Object(map) => map
            .into_iter()
            .filter(|(key, value)| key != "nullable" || !value.is_boolean())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}

/// Joins the lines of each paragraph of a description, because `kubectl explain` wraps lines itself.
fn unwrapped(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) if key == "description" => {
                    let paragraphs: Vec<String> = text.split("\n\n").map(|p| p.replace('\n', " ")).collect();
                    (key, Value::from(paragraphs.join("\n\n")))
                }
                other => (key, unwrapped(other)),
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(unwrapped).collect(),
        other => other,
    }
}
