//! Validates the nodes on which pods may run.

use crd::{Placement, TaintEffect, Toleration, TolerationOperator};

use super::is_object_name;

/// The maximum number of labels, and of tolerations.
const MAX: usize = 16;

/// Returns a message for each invalid label and toleration. `at` is the path of the fields of the pod.
pub(crate) fn problems(at: &str, placement: &Placement) -> Vec<String> {
    let Placement {
        node_selector,
        tolerations,
    } = placement;
    let mut problems = Vec::new();
    for (key, value) in node_selector {
        if !is_key(key) || !(value.is_empty() || is_label_part(value)) {
            problems.push(format!(
                "{at}.placement.nodeSelector: invalid label {key:?}: {value:?}: write it like disktype: ssd"
            ));
        }
    }
    for (field, count) in [
        ("nodeSelector", node_selector.len()),
        ("tolerations", tolerations.len()),
    ] {
        if count > MAX {
            problems.push(format!(
                "{at}.placement.{field}: {count} entries, and at most {MAX} are allowed"
            ));
        }
    }
    let tolerations = tolerations.iter().enumerate();
    problems.extend(tolerations.filter_map(|(index, toleration)| {
        let why = problem(toleration)?;
        Some(format!("{at}.placement.tolerations[{index}]: {why}"))
    }));
    problems
}

fn problem(toleration: &Toleration) -> Option<&'static str> {
    let exists = toleration.operator == Some(TolerationOperator::Exists);
    let is_eviction = toleration.effect == Some(TaintEffect::NoExecute);
    match toleration {
        Toleration { key: None, .. } if !exists => Some("missing key: set it, or set operator to Exists"),
        Toleration { key: Some(key), .. } if !is_key(key) => Some("invalid key: write it like dedicated"),
        Toleration { value: Some(_), .. } if exists => Some("the operator Exists has no value: remove it"),
        Toleration { value: Some(value), .. } if !is_label_part(value) => Some("invalid value: write it like batch"),
        Toleration {
            toleration_seconds: Some(_),
            ..
        } if !is_eviction => Some("tolerationSeconds is for the effect NoExecute: set the effect, or remove it"),
        _ => None,
    }
}

/// Whether a label, an annotation or a taint can have this key: a name, maybe with a domain.
pub(super) fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => is_object_name(domain) && is_label_part(name),
        None => is_label_part(key),
    }
}

/// Whether it can be the value of a label, or the name in its key.
fn is_label_part(text: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_edge)
        && text.ends_with(is_edge)
        && text.chars().all(|c| is_edge(c) || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn placement_is_valid_as_in_a_pod() {
        for (placement, is_valid) in [
            (json!({}), true),
            (
                json!({"nodeSelector": {"disktype": "ssd", "topology.kubernetes.io/zone": "a_B.1", "empty": ""}}),
                true,
            ),
            (json!({"nodeSelector": {"": "a"}}), false),
            (json!({"nodeSelector": {"a/b/c": "a"}}), false),
            (json!({"nodeSelector": {"Domain.com/b": "a"}}), false),
            (json!({"nodeSelector": {"a": "b c"}}), false),
            (
                json!({"tolerations": [{"operator": "Exists"}, {"key": "gpu"}, {"key": "gpu", "value": "a"}]}),
                true,
            ),
            (
                json!({"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 0}]}),
                true,
            ),
            (json!({"tolerations": [{}]}), false),
            (json!({"tolerations": [{"key": "a b"}]}), false),
            (
                json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
                false,
            ),
            (json!({"tolerations": [{"key": "a", "value": "-"}]}), false),
            (json!({"tolerations": [{"key": "a", "tolerationSeconds": 5}]}), false),
            (json!({"tolerations": vec![json!({"key": "a"}); 17]}), false),
        ] {
            let read: Placement = serde_json::from_value(Value::clone(&placement)).unwrap();
            assert_eq!(problems("spec", &read).is_empty(), is_valid, "{placement}");
        }
    }
}
