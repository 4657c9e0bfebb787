//! The scope of a right: cluster-wide, or in the managed namespaces.

use serde_json::{Value, json};

/// Cluster-scoped resources, which can't be granted in a namespace. An operator of some namespaces works without them.
const OF_THE_CLUSTER: [&str; 2] = ["ingressclasses", "customresourcedefinitions"];

/// The resource that is only used for admission.
const ASKED_FOR_ADMISSION: &str = "localsubjectaccessreviews";

/// Returns whether a rule is only needed with webhooks.
pub fn is_for_webhooks(rule: &Value) -> bool {
    rule["resources"] == json!([ASKED_FOR_ADMISSION])
}

/// Returns a rule's namespaced resources, and its cluster-scoped ones.
pub fn resources(rule: &Value) -> (Vec<&str>, Vec<&str>) {
    let all = rule["resources"].as_array().into_iter().flatten();
    all.filter_map(Value::as_str)
        .partition(|resource| !OF_THE_CLUSTER.contains(resource))
}
