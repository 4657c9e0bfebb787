//! Compares a live object with a rendered one.

use crd::AppDeploySpec;
use serde_json::{Map, Value, json};

use super::UnmappedField;
use crate::children::{DEPLOYMENT, settings};
use crate::fields::{is_nothing, merge_key};
use crate::quantity;

/// Returns the fields of a live object that a rendered one does not have or has with another value. Both must have the
/// defaults of the API server.
pub fn of(path: &str, live: &Value, ours: &Value) -> Vec<UnmappedField> {
    let mut unmapped = Vec::new();
    compare(path, live, Some(ours), &mut unmapped);
    unmapped
}

/// Returns the unmapped fields of a Deployment without its pod template. `spec` is what was read from it.
pub fn of_deployment(deployment: &Value, spec: &AppDeploySpec) -> impl Iterator<Item = UnmappedField> + use<> {
    let mut live = deployment["spec"].clone();
    if let Some(fields) = live.as_object_mut() {
        for own in ["paused", "replicas", "selector", "template"] {
            fields.remove(own);
        }
    }
    let ours = json!({"spec": settings(&spec.pod, spec.rollout.as_deref())});
    let ours = crate::defaults::filled(&DEPLOYMENT, &ours);
    of("spec", &live, &ours["spec"]).into_iter()
}

fn compare(path: &str, live: &Value, ours: Option<&Value>, unmapped: &mut Vec<UnmappedField>) {
    let differs = ours.is_some_and(|ours| !is_nothing(ours));
    match (live, ours) {
        (live, _) if is_nothing(live) || is_default(path, live) => {}
        (Value::Object(live), Some(Value::Object(ours))) => each(path, live, ours, unmapped),
        (Value::Array(live), Some(Value::Array(ours))) if keys(live).is_some() && keys(ours).is_some() => {
            let (names, known) = (keys(live).unwrap_or_default(), keys(ours).unwrap_or_default());
            for (name, item) in names.iter().zip(live) {
                let ours = known.iter().position(|known| known == name).map(|at| &ours[at]);
                compare(&format!("{path}[{name}]"), item, ours, unmapped);
            }
        }
        (live, Some(ours)) if is_same(path, live, ours) => {}
        // Entries of an unknown list are separate fields if they have names.
        (Value::Array(items), None) if keys(items).is_some() => {
            for (name, item) in keys(items).unwrap_or_default().iter().zip(items) {
                compare(&format!("{path}[{name}]"), item, None, unmapped);
            }
        }
        (live, _) => unmapped.push(UnmappedField {
            path: path.to_owned(),
            value: live.clone(),
            differs,
        }),
    }
}

fn each(path: &str, live: &Map<String, Value>, ours: &Map<String, Value>, unmapped: &mut Vec<UnmappedField>) {
    for (field, value) in live {
        compare(&format!("{path}.{field}"), value, ours.get(field), unmapped);
    }
}

fn keys(items: &[Value]) -> Option<Vec<String>> {
    items.iter().map(merge_key).collect()
}

/// Whether a value has the same effect as no value.
fn is_default(path: &str, value: &Value) -> bool {
    let field = path.rsplit('.').next().unwrap_or_default();
    match value {
        // By default pods share the users of the node.
        Value::Bool(false) => field != "hostUsers",
        // The operator turns these variables off, and apps do not use them.
        Value::Bool(true) => ["enableServiceLinks", "hostUsers"].contains(&field),
        // The deprecated name of serviceAccountName, which the API server sets as well.
        Value::String(_) if field == "serviceAccount" => true,
        Value::String(name) => field == "serviceAccountName" && name == "default",
        Value::Number(number) => number.as_i64() == Some(0) && field == "minReadySeconds",
        _ => false,
    }
}

fn is_same(path: &str, live: &Value, ours: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => quantity::canonical(text),
        other => quantity::canonical(&other.to_string()),
    };
    let is_amount = path.contains(".resources.") || path.ends_with("].emptyDir.sizeLimit");
    live == ours || is_amount && !live.is_object() && amount(live) == amount(ours)
}
