//! The pods of a PodSet as Kubernetes objects, and the patches that change them.

use std::collections::BTreeMap;

use crd::{PodSet, annotation, label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Creation, PodRef, Update, ValidPodSet};
use crate::desired::{CONTAINER, pod_spec};

/// Renders a pod. Its annotations record the template.
#[must_use]
pub fn pod(set: &PodSet, valid: &ValidPodSet, creation: &Creation) -> Value {
    let annotations = [
        (annotation::TEMPLATE_HASH, Some(&valid.template)),
        (annotation::SHAPE_HASH, Some(&valid.shape)),
        (annotation::REPLACES, creation.replaces.as_ref()),
    ];
    let labels = [
        (label::PODSET, &*valid.name),
        (label::MANAGED_BY, label::MANAGED_BY_VALUE),
    ];
    let annotations: BTreeMap<_, _> = annotations
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())))
        .collect();
    let pod = Pod {
        metadata: ObjectMeta {
            name: Some(valid.pod_name(creation.slot)),
            namespace: set.namespace(),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            annotations: Some(annotations),
            owner_references: Some(vec![controller(valid)]),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec(set.spec.pod())),
        status: None,
    };
    // A typed object always serialises: its keys are text.
    serde_json::to_value(pod).unwrap_or_default()
}

/// Returns the strategic merge patch that releases a pod. It records the set, because the pod keeps the name of a slot.
#[must_use]
pub fn release_patch(valid: &ValidPodSet, pod: &PodRef) -> Value {
    json!({"metadata": {
        "uid": pod.uid,
        "annotations": {annotation::RELEASED_FROM: valid.uid},
        "ownerReferences": [{"$patch": "delete", "uid": valid.uid}],
    }})
}

/// Returns the strategic merge patch that changes the image of a pod in place.
#[must_use]
pub fn update_patch(set: &PodSet, valid: &ValidPodSet, update: &Update) -> Value {
    json!({
        "metadata": {
            "uid": update.pod.uid,
            "resourceVersion": update.version,
            "annotations": {
                annotation::TEMPLATE_HASH: valid.template,
                annotation::UPDATED_FROM: update.change.container,
                annotation::UPDATED_FROM_IMAGE: update.change.image,
                annotation::UPDATED_AT: Timestamp::from_second(update.change.at).unwrap_or_default().to_string(),
            },
        },
        "spec": {"containers": [{"name": CONTAINER, "image": set.spec.pod().container.image}]},
    })
}

pub(super) fn controller(valid: &ValidPodSet) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", crd::GROUP, crd::VERSION),
        kind: crd::Kind::PodSet.as_str().to_owned(),
        name: valid.name.clone(),
        uid: valid.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_rendered_with_the_hashes_of_its_template() {
        let set: PodSet = serde_json::from_value(json!({
            "apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
            "spec": {"template": {"image": "nginx:1.27", "port": 80}},
        }))
        .unwrap();
        let creation = Creation {
            slot: 3,
            replaces: Some("p1".into()),
        };
        insta::assert_json_snapshot!(pod(&set, &ValidPodSet::of(&set).unwrap(), &creation));
    }
}
