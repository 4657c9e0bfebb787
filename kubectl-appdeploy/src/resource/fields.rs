//! Fields of an object that is still JSON.

use crd::{Kind, PodSetSpec};
use serde_json::{Value, json};

/// Returns the fields about pods in an object of a kind. A pod set without a template gets the default as its template.
pub fn pod_of(kind: Kind, object: &mut Value) -> &mut Value {
    match kind {
        Kind::AppDeploy => &mut object["spec"],
        Kind::PodSet => {
            let template = &mut object["spec"]["template"];
            if template.is_null() {
                *template = json!(PodSetSpec::default().pod());
            }
            template
        }
    }
}

/// Sets or removes a field.
pub fn put(fields: &mut Value, name: &str, value: Option<Value>) {
    match (fields.as_object_mut(), value) {
        (Some(fields), None) => {
            fields.remove(name);
        }
        (_, Some(value)) => fields[name] = value,
        (None, None) => {}
    }
}

/// Returns a value, unless it is an object or a list without entries.
pub fn non_empty(value: Value) -> Option<Value> {
    let is_empty = match &value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(value)
}
