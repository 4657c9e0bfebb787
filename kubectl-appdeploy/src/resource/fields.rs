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
