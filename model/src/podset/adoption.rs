//! Adoption of pods, and whether the image of an adopted pod may be changed in place.
//!
//! After a change in place, the image runs with everything that the pod has: volumes, ServiceAccount, privileges. Any user
//! who may create a pod may also write the annotations that record its template. So the image of an adopted pod is changed
//! in place only if its spec is the one that the operator would create. Otherwise the next change of the template replaces
//! the pod.

use crd::{PodSet, annotation};
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::object::controller;
use super::{SetPod, ValidPodSet};
use crate::defaults;
use crate::desired::{CONTAINER, pod_spec};

/// Returns the strategic merge patch that adopts a pod. A pod without a record of its template counts as one of the current
/// template, and keeps running.
#[must_use]
pub fn adoption_patch(set: &PodSet, valid: &ValidPodSet, pod: &SetPod) -> Value {
    let is_as_created = pod.orphan_spec.as_deref() == Some(&comparable(&pod_spec(set.spec.pod())));
    let says_shape = pod.shape.as_deref() == Some(&*valid.shape);
    let mut annotations = json!({});
    if pod.template.is_none() {
        annotations[annotation::TEMPLATE_HASH] = json!(valid.template);
    }
    if is_as_created && pod.template.is_none() {
        annotations[annotation::SHAPE_HASH] = json!(valid.shape);
    } else if pod.shape.is_some() && !(is_as_created && says_shape) {
        annotations[annotation::SHAPE_HASH] = Value::Null;
    }
    let mut metadata = json!({"uid": pod.uid, "ownerReferences": [controller(valid)]});
    if annotations
        .as_object()
        .is_some_and(|annotations| !annotations.is_empty())
    {
        metadata["annotations"] = annotations;
    }
    json!({"metadata": metadata})
}

/// Returns the spec of a pod with the defaults of the API server, without the image, which can be changed in place, and
/// without fields that the API server and the scheduler add to every pod.
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
    for containers in ["initContainers", "containers"] {
        let containers = fields.get_mut(containers).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(complete);
    }
    spec
}

/// Whether it is a toleration that the API server adds to every pod.
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
        // It depends on the first image, and is compared separately.
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

    /// Returns a pod with another image, with the defaults of the API server.
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
        let valid = ValidPodSet {
            template: "t1".into(),
            shape: "s1".into(),
            ..ValidPodSet::default()
        };
        adoption_patch(&set(), &valid, pod)["metadata"]["annotations"].clone()
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
        assert_eq!(annotations(&released), Value::Null, "its record is right");
    }

    #[test]
    fn pod_with_additions_is_not_changed_in_place() {
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
