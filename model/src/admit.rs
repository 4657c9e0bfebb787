//! The decisions of the admission webhooks: which rights the author must have, which warnings are returned, and which label
//! is added. Most rules are in the schema and do not need a webhook.

mod gated;
mod right;
mod warning;

use crd::{AppDeploy, Kind, PodFields, PodSet, label};
use serde::Serialize;
use serde_json::{Value, json};

pub use self::gated::{gated_fields, without_review};
pub use self::right::{
    RequiredRight, RightReason, changes_program, right_to_additions, right_to_credentials, rights_to_references,
};
pub use self::warning::{tiny_amounts, warnings};

/// A kind whose objects the webhooks check.
pub trait Admitted: Serialize {
    /// Returns the fields of the pods.
    fn pod(&self) -> &PodFields;
    /// The path of these fields.
    const POD: &'static str;
    /// Whether the object does not set these fields.
    fn is_default(&self) -> bool {
        false
    }
    /// Returns the number of pods.
    fn replicas(&self) -> i32;
    /// Returns other Secrets than those of the pods, each with its field.
    fn secrets(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl Admitted for AppDeploy {
    const POD: &'static str = "spec";

    fn pod(&self) -> &PodFields {
        &self.spec.pod
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas
    }

    fn secrets(&self) -> Vec<(String, String)> {
        let tls = self.spec.tls.iter();
        tls.filter_map(|tls| Some((tls.secret_name.clone()?, "spec.tls.secretName".to_owned())))
            .collect()
    }
}

impl Admitted for PodSet {
    const POD: &'static str = "spec.template";

    fn pod(&self) -> &PodFields {
        self.spec.pod()
    }

    fn is_default(&self) -> bool {
        self.spec.template.is_none()
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas
    }
}

/// Whether two versions of an object have the same spec. An update of metadata is not checked.
#[must_use]
pub fn is_same<K: Serialize>(old: &K, new: &K) -> bool {
    spec(old) == spec(new)
}

fn spec(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()["spec"].take()
}

fn spec_without_replicas(object: &impl Serialize) -> Value {
    let mut spec = spec(object);
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("replicas");
    }
    spec
}

/// Returns the path of the fields of pods in a kind.
#[must_use]
pub const fn pod_path(kind: Kind) -> &'static str {
    match kind {
        Kind::AppDeploy => AppDeploy::POD,
        Kind::PodSet => PodSet::POD,
    }
}

/// Returns the JSON patch (RFC 6902) that adds the label with the object's name, by which tools group related objects. It is
/// idempotent. The spec is never changed, so that the stored one is that in Git.
#[must_use]
pub fn label_patch(object: &Value) -> Value {
    let mut patch = Vec::new();
    let meta = &object["metadata"];
    // A generated name is not known before the object is stored.
    if let Some(name) = meta["name"].as_str()
        && meta["labels"].get(label::NAME).is_none()
    {
        if meta["labels"].is_null() {
            patch.push(json!({"op": "add", "path": "/metadata/labels", "value": {label::NAME: name}}));
        } else {
            let pointer = format!("/metadata/labels/{}", label::NAME.replace('/', "~1"));
            patch.push(json!({"op": "add", "path": pointer, "value": name}));
        }
    }
    Value::Array(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_added_once() {
        let mut object = json!({"metadata": {"name": "shop"}, "spec": {"host": " Shop.Example.COM. "}});
        let patch = label_patch(&object);
        let labels = json!({"app.kubernetes.io/name": "shop"});
        assert_eq!(
            patch,
            json!([{"op": "add", "path": "/metadata/labels", "value": labels}]),
            "the host stays as written"
        );
        object["metadata"]["labels"] = labels;
        assert_eq!(label_patch(&object), json!([]));
        let theirs = json!({"metadata": {"name": "shop", "labels": {"app.kubernetes.io/name": "mine"}}, "spec": {}});
        assert_eq!(label_patch(&theirs), json!([]));
    }
}
