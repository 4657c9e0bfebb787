//! How a pod is adopted, and what an adopted pod is trusted with.
//!
//! An image that is changed in place runs with all that the pod has: volumes, ServiceAccount, privileges. The annotations
//! that say what a pod was made from can be written by anyone who may create a pod. So a pod is only changed in place after
//! an adoption if its spec is the one that would be created; else the next change of the template replaces it.

use crd::{PodSet, annotation};
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::object::controller;
use super::{SetPod, Wanted};
use crate::defaults;
use crate::desired::{CONTAINER, pod_spec};

/// Returns the strategic merge patch that adopts a pod. A pod that does not say what it was made from counts as made from
/// the current template, and keeps running as it is.
#[must_use]
pub fn adopted(set: &PodSet, wanted: &Wanted, pod: &SetPod) -> Value {
    let is_as_created = pod.orphan_spec.as_deref() == Some(&comparable(&pod_spec(set.spec.pod())));
    let says_shape = pod.shape.as_deref() == Some(&*wanted.shape);
    let mut annotations = json!({});
    if pod.template.is_none() {
        annotations[annotation::TEMPLATE_HASH] = json!(wanted.template);
    }
    if is_as_created && pod.template.is_none() {
        annotations[annotation::SHAPE_HASH] = json!(wanted.shape);
    } else if pod.shape.is_some() && !(is_as_created && says_shape) {
        annotations[annotation::SHAPE_HASH] = Value::Null;
    }
    let mut metadata = json!({"uid": pod.uid, "ownerReferences": [controller(wanted)]});
    if annotations
        .as_object()
        .is_some_and(|annotations| !annotations.is_empty())
    {
        metadata["annotations"] = annotations;
    }
    json!({"metadata": metadata})
}

/// Returns the spec of a pod as the API server completes it, without what can be changed in place (the image) and without
/// what the API server and the scheduler add to every pod.
pub(super) fn comparable(spec: &PodSpec) -> Value {
    // A typed object always serialises: its keys are text.
    let mut spec = serde_json::to_value(spec).unwrap_or_default();
    defaults::pod_spec(&mut spec);
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    fields.remove("nodeName");
    for (field, default) in [
        ("serviceAccountName", json!("default")),
        ("serviceAccount", json!("default")),
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
    ] {
        if fields.get(field) == Some(&default) {
            fields.remove(field);
        }
    }
    if let Some(tolerations) = fields.get_mut("tolerations").and_then(Value::as_array_mut) {
        tolerations.retain(|toleration| !is_default(toleration));
        if tolerations.is_empty() {
            fields.remove("tolerations");
        }
    }
    let containers = fields.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        complete(container);
    }
    spec
}

/// Whether the API server adds a toleration to every pod.
fn is_default(toleration: &Value) -> bool {
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .iter()
        .any(|key| {
            *toleration == json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
        })
}

fn complete(container: &mut Value) {
    let is_ours = container["name"] == CONTAINER;
    let Some(fields) = container.as_object_mut() else {
        return;
    };
    if is_ours {
        fields.remove("image");
        // It was settled by the first image, and is compared apart.
        fields.remove("imagePullPolicy");
    }
    let limits = fields
        .get("resources")
        .and_then(|resources| resources.get("limits"))
        .cloned();
    if let Some(Value::Object(limits)) = limits {
        for (resource, amount) in limits {
            let request = &mut fields["resources"]["requests"][&resource];
            if request.is_null() {
                *request = amount;
            }
        }
    }
    if fields.get("resources") == Some(&json!({})) {
        fields.remove("resources");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> PodSet {
        serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "spec": {"template": {"image": "nginx:2", "port": 80, "resources": {"limits": {"cpu": "1"}}}},
        }))
        .unwrap()
    }

    /// A pod as it is created, with another image, and completed by an API server.
    fn live() -> Value {
        let mut spec = serde_json::to_value(pod_spec(set().spec.pod())).unwrap();
        defaults::pod_spec(&mut spec);
        for (field, value) in [
            ("nodeName", json!("n1")),
            ("serviceAccountName", json!("default")),
            ("serviceAccount", json!("default")),
            ("priority", json!(0)),
            ("preemptionPolicy", json!("PreemptLowerPriority")),
        ] {
            spec[field] = value;
        }
        spec["tolerations"] = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300}]);
        spec["containers"][0]["image"] = json!("nginx:1");
        spec["containers"][0]["resources"]["requests"] = json!({"cpu": "1"});
        spec
    }

    fn orphan(spec: &Value) -> SetPod {
        SetPod {
            uid: "p1".into(),
            orphan_spec: Some(Box::new(comparable(&serde_json::from_value(spec.clone()).unwrap()))),
            ..SetPod::default()
        }
    }

    fn annotations(pod: &SetPod) -> Value {
        let wanted = Wanted {
            template: "t1".into(),
            shape: "s1".into(),
            ..Wanted::default()
        };
        adopted(&set(), &wanted, pod)["metadata"]["annotations"].clone()
    }

    #[test]
    fn pod_as_it_would_be_created_can_be_changed_in_place() {
        let expected = json!({annotation::TEMPLATE_HASH: "t1", annotation::SHAPE_HASH: "s1"});
        assert_eq!(annotations(&orphan(&live())), expected);
        let released = SetPod {
            template: Some("t0".into()),
            shape: Some("s1".into()),
            ..orphan(&live())
        };
        assert_eq!(annotations(&released), Value::Null, "it says what it is");
    }

    #[test]
    fn pod_with_anything_else_is_not_trusted_with_another_image() {
        let mut volume = live();
        volume["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]);
        let mut account = live();
        account["serviceAccountName"] = json!("admin");
        let mut privileged = live();
        privileged["containers"][0]["securityContext"]["privileged"] = json!(true);
        let mut second = live();
        let other = json!({"name": "other", "image": "other"});
        second["containers"].as_array_mut().unwrap().push(other);
        let mut host = live();
        host["hostNetwork"] = json!(true);
        for spec in [volume, account, privileged, second, host] {
            let stray = orphan(&spec);
            assert_eq!(annotations(&stray), json!({annotation::TEMPLATE_HASH: "t1"}));
            let forged = SetPod {
                template: Some("t0".into()),
                shape: Some("s1".into()),
                ..stray
            };
            assert_eq!(annotations(&forged), json!({annotation::SHAPE_HASH: null}));
        }
    }
}
