//! Renders what all containers of a pod have in common.

use std::collections::BTreeMap;

use crd::{Quantity, Resources};
use k8s_openapi::api::core::v1::{Capabilities, ResourceRequirements, SecurityContext};
use k8s_openapi::apimachinery::pkg::api::resource;

/// The kubelet copies the end of the log into the status of a failed container, so the operator needs no right to read logs.
pub(super) const TERMINATION_MESSAGE_POLICY: &str = "FallbackToLogsOnError";

/// Renders the security settings of a container.
pub(super) fn security_context(restricted: bool) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: restricted.then(|| Capabilities {
            drop: Some(vec!["ALL".into()]),
            ..Capabilities::default()
        }),
        ..SecurityContext::default()
    }
}

/// Renders the resources of a container.
pub(super) fn resources(resources: &Resources) -> ResourceRequirements {
    ResourceRequirements {
        requests: quantities(&resources.requests),
        limits: quantities(&resources.limits),
        ..ResourceRequirements::default()
    }
}

fn quantities(amounts: &BTreeMap<String, Quantity>) -> Option<BTreeMap<String, resource::Quantity>> {
    let amounts: BTreeMap<_, _> = amounts
        .iter()
        .map(|(name, amount)| (name.clone(), resource::Quantity(amount.0.clone())))
        .collect();
    (!amounts.is_empty()).then_some(amounts)
}
