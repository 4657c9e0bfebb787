//! Reads environment variables.

use crd::{EnvFromSource, EnvVar, EnvVarSource, FieldPath, FieldRef, KeyRef};
use serde_json::Value;

use super::text;

/// Reads a variable. Returns `None` if a spec can't express its source.
pub(super) fn variable(var: &Value) -> Option<EnvVar> {
    let source = &var["valueFrom"];
    Some(EnvVar {
        name: text(&var["name"]),
        value: var["value"]
            .as_str()
            .filter(|value| !value.is_empty())
            .map(str::to_owned),
        value_from: if source.is_null() {
            None
        } else {
            Some(value_from(source)?)
        },
    })
}

fn value_from(source: &Value) -> Option<EnvVarSource> {
    let key = |source: &Value| {
        source.is_object().then(|| KeyRef {
            name: text(&source["name"]),
            key: text(&source["key"]),
            optional: source["optional"].as_bool(),
        })
    };
    let read = EnvVarSource {
        secret_key_ref: key(&source["secretKeyRef"]),
        config_map_key_ref: key(&source["configMapKeyRef"]),
        field_ref: field(&source["fieldRef"]),
    };
    (read != EnvVarSource::default()).then_some(read)
}

fn field(source: &Value) -> Option<FieldRef> {
    let is_v1 = source["apiVersion"].as_str().is_none_or(|version| version == "v1");
    let path = FieldPath::ALL
        .into_iter()
        .find(|path| source["fieldPath"] == path.as_str());
    path.filter(|_| is_v1).map(|field_path| FieldRef { field_path })
}

/// Reads an object, all keys of which are variables.
pub(super) fn object(source: &Value) -> Option<EnvFromSource> {
    let mut read: EnvFromSource = serde_json::from_value(source.clone()).ok()?;
    read.prefix = read.prefix.filter(|prefix| !prefix.is_empty());
    Some(read)
}
