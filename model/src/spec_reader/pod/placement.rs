//! Reads the nodes on which pods may run.

use crd::{Placement, Toleration};
use serde_json::{Value, json};

use super::{items, text};
use crate::fields::is_nothing;
use crate::valid::placement_problems;

/// Reads the node selector and the tolerations of a pod, each as a whole: a spec that has only some of them would select other
/// nodes.
pub(super) fn read(spec: &Value) -> Option<Placement> {
    let labels = spec["nodeSelector"].as_object().into_iter().flatten();
    let selector = Placement {
        node_selector: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
        ..Placement::default()
    };
    let tolerations: Option<Vec<_>> = items(&spec["tolerations"]).map(toleration).collect();
    let tolerations = Placement {
        tolerations: tolerations.unwrap_or_default(),
        ..Placement::default()
    };
    let [selector, tolerations] = [selector, tolerations].map(|part| {
        let is_valid = placement_problems("", &part).is_empty();
        if is_valid { part } else { Placement::default() }
    });
    let read = Placement {
        node_selector: selector.node_selector,
        tolerations: tolerations.tolerations,
    };
    (read != Placement::default()).then_some(read)
}

fn toleration(live: &Value) -> Option<Toleration> {
    let mut written = live.clone();
    written.as_object_mut()?.retain(|_, value| !is_nothing(value));
    let read: Toleration = serde_json::from_value(written.clone()).ok()?;
    (json!(read) == written).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_spec_can_express_is_read() {
        let gpu = json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"});
        let spec =
            json!({"nodeSelector": {"disktype": "ssd"}, "tolerations": [gpu, {"key": "a", "value": "", "effect": ""}]});
        assert_eq!(
            json!(read(&spec)),
            json!({"nodeSelector": {"disktype": "ssd"}, "tolerations": [gpu, {"key": "a"}]})
        );
        // Of the list, nothing is read.
        let newer = json!({"key": "cores", "operator": "Gt", "value": "4"});
        let spec = json!({"nodeSelector": {"disktype": "ssd"}, "tolerations": [gpu, newer]});
        assert_eq!(json!(read(&spec)), json!({"nodeSelector": {"disktype": "ssd"}}));
        assert_eq!(read(&json!({"nodeSelector": {}, "tolerations": [newer]})), None);
    }
}
