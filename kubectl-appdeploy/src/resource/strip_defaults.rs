//! Objects without what the API server adds.

use crd::Kind;
use kube::api::DynamicObject;
use model::export::remove_annotations;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Annotations that commands write to record when they ran. They are not part of what a user wants.
pub const RECORDS: [&str; 3] = [
    crd::annotation::LAST_APPLIED,
    crd::annotation::ADOPTED_AT,
    crd::annotation::RESTARTED_AT,
];

/// Returns an object without status, and without the defaults of its kind spelled out.
pub fn plain(kind: Kind, object: &impl Serialize) -> Result<Value> {
    let mut value =
        serde_json::to_value(object).map_err(|source| Error::failed(format!("cannot write the object: {source}")))?;
    if let Some(object) = value.as_object_mut() {
        object.remove("status");
    }
    for (field, usual) in usual(kind) {
        if let Some(fields) = value.get_mut("spec").and_then(Value::as_object_mut)
            && fields.get(field) == Some(&usual)
        {
            fields.remove(field);
        }
    }
    Ok(value)
}

/// Returns an object of a cluster as its author could have written it: name, namespace, labels, annotations and spec.
pub fn written(kind: Kind, object: &DynamicObject) -> Result<Value> {
    let mut value = plain(kind, object)?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
    }
    remove_annotations(&mut value, &RECORDS);
    Ok(value)
}

/// The defaults that the API server writes into a spec, without `replicas`.
fn usual(kind: Kind) -> Vec<(&'static str, Value)> {
    match kind {
        Kind::AppDeploy => Vec::new(),
        Kind::PodSet => vec![("minReadySeconds", json!(0))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_set_fields_are_not_exported() {
        let object = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a", "uid": "u", "generation": 3, "resourceVersion": "7",
                "labels": {"team": "shop"}, "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "appdeploy.dev/adopted-at": "2026-01-01T00:00:00Z"}},
            "spec": {"image": "nginx", "port": 80, "replicas": 1, "expose": "Public"},
            "status": {"url": "http://shop.a/"}});
        let written = written(Kind::AppDeploy, &serde_json::from_value(object).unwrap()).unwrap();
        insta::assert_snapshot!(crate::output::yaml::write(&written).unwrap());
    }
}
