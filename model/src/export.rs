//! The children of an app or a pod set as standalone objects, which `export` prints and `eject` keeps.

use crd::{AppDeploy, PodSet, annotation, label};
use serde_json::{Map, Value};

use crate::podset::{Creation, ValidPodSet, pod};
use crate::{ChildKind, Invalid, Valid, desired, validate};

/// The annotations in which the operator records data about a child.
pub const BOOKKEEPING: [&str; 4] = [
    annotation::DESIRED_HASH,
    annotation::REVISION_SPEC,
    annotation::TEMPLATE_HASH,
    annotation::SHAPE_HASH,
];

/// The fields of `metadata` that the API server sets.
pub const SERVER_SET: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes the status and the fields of `metadata` that the API server sets.
pub fn remove_server_set(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SERVER_SET.contains(&field.as_str()));
    }
}

/// Removes annotations of these names, and the map if it is empty then.
pub fn remove_annotations(object: &mut Value, names: &[&str]) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        without(metadata, "annotations", names);
    }
}

/// Returns the children of an app as the operator writes them in a cluster that serves these optional kinds.
///
/// # Errors
/// Returns a message for each invalid field.
pub fn of_app(app: &AppDeploy, served: &[&'static ChildKind]) -> Result<Vec<Value>, Invalid> {
    let children = desired(&Valid {
        served: served.to_vec(),
        ..validate(app)?
    });
    Ok(children.iter().map(|wanted| wanted.object.clone()).collect())
}

/// Returns the pods that the operator would create for a pod set without pods.
///
/// # Errors
/// Returns a message for each invalid field.
pub fn of_podset(set: &PodSet) -> Result<Vec<Value>, Invalid> {
    let valid = ValidPodSet::of(set)?;
    let slots = (0..u16::MAX).take(valid.replicas);
    Ok(slots
        .map(|slot| pod(set, &valid, &Creation { slot, replaces: None }))
        .collect())
}

/// Returns an object without owner, without the label of its manager, and without the annotations of the operator. The
/// labels of its pods are kept, because they are part of the selector.
#[must_use]
pub fn standalone(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return object;
    };
    metadata.remove("ownerReferences");
    without(metadata, "labels", &[label::MANAGED_BY]);
    without(metadata, "annotations", &BOOKKEEPING);
    object
}

/// Returns an object for a diff: without status and without metadata that the API server and the operator set.
#[must_use]
pub fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    remove_server_set(&mut object);
    remove_annotations(&mut object, &BOOKKEEPING);
    // Set by the Deployment controller.
    remove_annotations(&mut object, &["deployment.kubernetes.io/revision"]);
    object
}

fn without(metadata: &mut Map<String, Value>, part: &str, names: &[&str]) {
    let Some(entries) = metadata.get_mut(part).and_then(Value::as_object_mut) else {
        return;
    };
    entries.retain(|name, _| !names.contains(&name.as_str()));
    if entries.is_empty() {
        metadata.remove(part);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "web", "namespace": "a", "uid": "u1"}, "spec": spec})
    }

    #[test]
    fn standalone_object_has_no_owner_and_keeps_its_selector() {
        let app = serde_json::from_value(spec("AppDeploy", json!({"image": "nginx", "port": 80}))).unwrap();
        let objects: Vec<Value> = of_app(&app, &[]).unwrap().iter().map(standalone).collect();
        assert_eq!(objects.len(), 3);
        for object in &objects {
            let labels = json!({"app.kubernetes.io/name": "web", "appdeploy.dev/app": "web"});
            assert_eq!(
                object["metadata"],
                json!({"name": "web", "namespace": "a", "labels": labels})
            );
        }
        assert_eq!(
            objects[0]["spec"]["selector"]["matchLabels"],
            json!({"appdeploy.dev/app": "web"})
        );
    }

    #[test]
    fn pod_set_is_exported_as_its_pods() {
        let set = spec("PodSet", json!({"replicas": 2, "template": {"image": "nginx"}}));
        let pods = of_podset(&serde_json::from_value(set).unwrap()).unwrap();
        let names: Vec<&Value> = pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
        assert_eq!(names, ["web-0", "web-1"]);
        let pod = standalone(&pods[0]);
        assert_eq!((&pod["kind"], &pod["apiVersion"]), (&json!("Pod"), &json!("v1")));
        assert_eq!(pod["metadata"].get("annotations"), None);
    }

    #[test]
    fn metadata_of_the_server_is_not_compared() {
        let live = json!({"metadata": {"name": "web", "uid": "1", "resourceVersion": "2",
            "annotations": {"appdeploy.dev/desired-hash": "0"}}, "spec": {"a": 1}, "status": {}});
        assert_eq!(
            comparable(&live),
            json!({"metadata": {"name": "web"}, "spec": {"a": 1}})
        );
    }
}
