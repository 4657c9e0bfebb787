//! The smallest merge patch between two objects.

use serde_json::{Map, Value};

/// Returns the JSON merge patch (RFC 7396) that makes `after` of `before`; nothing if they are equal.
pub fn between(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        let difference = match old.get(name) {
            Some(old) => between(old, value),
            None => Some(value.clone()),
        };
        if let Some(difference) = difference {
            patch.insert(name.clone(), difference);
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// Whether a patch replaces or removes a list or a group of fields, including what another client may have added
/// concurrently.
pub fn replaces_a_list(patch: &Value, before: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Null => before.is_array() || before.is_object(),
        Value::Object(fields) => fields.iter().any(|(name, patch)| replaces_a_list(patch, &before[name])),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patch_contains_only_changed_fields() {
        let before = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": {"f": 1}, "g": 1});
        let after = json!({"a": 1, "b": {"c": [1, 2], "d": 2}, "e": {}, "h": {"i": 1}});
        let patch = between(&before, &after).unwrap();
        assert_eq!(
            patch,
            json!({"b": {"c": [1, 2]}, "e": {"f": null}, "g": null, "h": {"i": 1}})
        );
        assert!(replaces_a_list(&patch, &before));
        let removes = json!({"a": {"b": null}});
        assert!(!replaces_a_list(&removes, &json!({"a": {"b": 1}})));
        assert!(replaces_a_list(&removes, &json!({"a": {"b": [1]}})));
        assert!(replaces_a_list(&removes, &json!({"a": {"b": {"c": 1}}})));
        assert!(!replaces_a_list(&json!({"new": {"c": null}}), &before));
        assert_eq!(between(&after, &after), None);
    }
}
