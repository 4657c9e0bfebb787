//! Writes the CustomResourceDefinitions as YAML into a folder: `make manifests` puts them into `config/crd`.

use std::path::Path;

use anyhow::Context as _;
use kube::CustomResourceExt as _;
use serde_json::Value;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).context("which folder?")?;
    for crd in [crd::AppDeploy::crd(), crd::PodSet::crd()] {
        let file = Path::new(&folder).join(format!("{}.yaml", crd.spec.names.plural));
        let manifest = unwrapped(whole_numbers(serde_json::to_value(crd)?));
        std::fs::write(file, serde_yaml::to_string(&manifest)?)?;
    }
    Ok(())
}

/// Writes `65535.0` as `65535`, as the API server gives it back: limits are floating point in the schema's types.
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

/// Makes each paragraph of a description one line. `kubectl explain` wraps by itself, and shows the line ends of
/// the source beside its own.
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
