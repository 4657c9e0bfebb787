//! Renders the nodes on which pods may run.

use std::collections::BTreeMap;

use crd::{Placement, PodFields};
use k8s_openapi::api::core::v1::Toleration;

use super::some_list;

/// Renders the labels that a node must have; `None` without any.
pub(super) fn node_selector(pod: &PodFields) -> Option<BTreeMap<String, String>> {
    let labels = pod.placement.as_ref().map(|placement| &placement.node_selector);
    labels.filter(|labels| !labels.is_empty()).cloned()
}

/// Renders the tolerations of a pod; `None` without any.
pub(super) fn tolerations(pod: &PodFields) -> Option<Vec<Toleration>> {
    let Placement { tolerations, .. } = pod.placement.as_deref()?;
    some_list(tolerations, |toleration| Toleration {
        key: toleration.key.clone(),
        operator: toleration.operator.map(|operator| operator.as_str().to_owned()),
        value: toleration.value.clone(),
        effect: toleration.effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: toleration.toleration_seconds,
    })
}
