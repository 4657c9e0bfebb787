//! What a right is for, and where it counts: in the whole cluster, or in the namespaces that the operator looks after.

use serde_json::{Value, json};

/// What lives in no namespace, and so can't be granted in one. An operator of some namespaces does without it.
const OF_THE_CLUSTER: [&str; 1] = ["ingressclasses"];

/// What the operator asks for an admission, and for nothing else.
const ASKED_FOR_ADMISSION: &str = "localsubjectaccessreviews";

/// Whether a rule is of no use without webhooks.
pub fn is_for_webhooks(rule: &Value) -> bool {
    rule["resources"] == json!([ASKED_FOR_ADMISSION])
}

/// Returns a rule's resources that live in a namespace, and those that don't.
pub fn resources(rule: &Value) -> (Vec<&str>, Vec<&str>) {
    let all = rule["resources"].as_array().into_iter().flatten();
    all.filter_map(Value::as_str)
        .partition(|resource| !OF_THE_CLUSTER.contains(resource))
}
