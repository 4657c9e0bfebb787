//! What an object says that ours does not.

use serde_json::{Map, Value};

use super::Left;
use crate::fields::merge_key;
use crate::quantity;

/// Compares what is there with what we would write, both with the API server's defaults spelled out.
pub fn of(path: &str, live: &Value, ours: &Value) -> Vec<Left> {
    let mut left = Vec::new();
    compare(path, live, Some(ours), &mut left);
    left
}

/// Returns what a Deployment says about itself. `waits` is how long a pod of ours must have run.
pub fn of_deployment(deployment: &Value, waits: i32) -> impl Iterator<Item = Left> + use<> {
    let mut live = deployment["spec"].clone();
    if let Some(fields) = live.as_object_mut() {
        for own in ["paused", "replicas", "selector", "template"] {
            fields.remove(own);
        }
    }
    let mut ours = crate::defaults::filled(&crate::children::DEPLOYMENT, &Value::Null);
    if waits > 0 {
        ours["spec"]["minReadySeconds"] = waits.into();
    }
    of("spec", &live, &ours["spec"]).into_iter()
}

fn compare(path: &str, live: &Value, ours: Option<&Value>, left: &mut Vec<Left>) {
    let differs = ours.is_some_and(|ours| !is_nothing(ours));
    match (live, ours) {
        (live, _) if is_nothing(live) || is_usual(path, live) => {}
        (Value::Object(live), Some(Value::Object(ours))) => each(path, live, ours, left),
        (Value::Array(live), Some(Value::Array(ours))) if keys(live).is_some() && keys(ours).is_some() => {
            let (names, known) = (keys(live).unwrap_or_default(), keys(ours).unwrap_or_default());
            for (name, item) in names.iter().zip(live) {
                let ours = known.iter().position(|known| known == name).map(|at| &ours[at]);
                compare(&format!("{path}[{name}]"), item, ours, left);
            }
        }
        (live, Some(ours)) if is_same(path, live, ours) => {}
        // The parts of what we do not know at all are told one by one only where they have names of their own.
        (Value::Array(items), None) if keys(items).is_some() => {
            for (name, item) in keys(items).unwrap_or_default().iter().zip(items) {
                compare(&format!("{path}[{name}]"), item, None, left);
            }
        }
        (live, _) => left.push(Left {
            path: path.to_owned(),
            value: live.clone(),
            differs,
        }),
    }
}

fn each(path: &str, live: &Map<String, Value>, ours: &Map<String, Value>, left: &mut Vec<Left>) {
    for (field, value) in live {
        compare(&format!("{path}.{field}"), value, ours.get(field), left);
    }
}

fn keys(items: &[Value]) -> Option<Vec<String>> {
    items.iter().map(merge_key).collect()
}

/// What the API server leaves out or makes of nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What says the same as saying nothing.
fn is_usual(path: &str, value: &Value) -> bool {
    let field = path.rsplit('.').next().unwrap_or_default();
    match value {
        // Pods share the users of the node unless they say that they do not.
        Value::Bool(false) => field != "hostUsers",
        // Ours go without, and nobody relies on the addresses of every Service of the namespace.
        Value::Bool(true) => field == "enableServiceLinks",
        // The former name of serviceAccountName, which the API server writes beside it.
        Value::String(_) => field == "serviceAccount",
        Value::Number(number) => number.as_i64() == Some(0) && field == "minReadySeconds",
        _ => false,
    }
}

fn is_same(path: &str, live: &Value, ours: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => quantity::canonical(text),
        other => quantity::canonical(&other.to_string()),
    };
    let is_amount = path.contains(".resources.");
    live == ours || is_amount && !live.is_object() && amount(live) == amount(ours)
}
