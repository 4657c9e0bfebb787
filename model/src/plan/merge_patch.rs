//! The strategic merge patch between two desired objects.

use serde_json::{Map, Value};

use crate::fields::is_nothing;

/// The lists whose entries a strategic merge patch finds by their name.
const LISTS_BY_NAME: [&str; 3] = ["containers", "initContainers", "env"];

/// The difference can't be expressed: a field or an entry of a list would have to be removed, or a list be reordered.
#[derive(Debug)]
struct Inexpressible;

/// Returns the patch that changes one object into the other; `None` if a patch without directives can't.
pub(super) fn between(before: &Value, wanted: &Value) -> Option<Value> {
    difference("", before, wanted).ok().flatten()
}

/// Returns the patch that gives the fields of these paths their values in `wanted`; `None` if one of them is in a list.
pub(super) fn restoring(wanted: &Value, paths: &[String]) -> Option<Value> {
    let mut patch = Map::new();
    let mut found = 0;
    for (name, value) in wanted.as_object()? {
        let chosen = if name == "metadata" {
            // The paths of labels and annotations begin with their names.
            choose("", value, paths, &mut found)
        } else {
            choose(name, value, paths, &mut found)
        };
        patch.extend(chosen.map(|chosen| (name.clone(), chosen)));
    }
    (found == paths.len()).then_some(Value::Object(patch))
}

/// Returns the fields of a value that have one of these paths, and counts them.
fn choose(path: &str, value: &Value, paths: &[String], found: &mut usize) -> Option<Value> {
    let Value::Object(fields) = value else {
        let is_chosen = !value.is_array() && paths.iter().any(|chosen| chosen == path);
        *found += usize::from(is_chosen);
        return is_chosen.then(|| value.clone());
    };
    let mut chosen = Map::new();
    for (name, value) in fields {
        let separator = if path.is_empty() { "" } else { "." };
        let field = choose(&format!("{path}{separator}{name}"), value, paths, found);
        chosen.extend(field.map(|field| (name.clone(), field)));
    }
    (!chosen.is_empty()).then_some(Value::Object(chosen))
}

/// Returns the part of `wanted` that differs; `None` if nothing does.
fn difference(field: &str, before: &Value, wanted: &Value) -> Result<Option<Value>, Inexpressible> {
    if before == wanted {
        return Ok(None);
    }
    match (before, wanted) {
        (Value::Object(before), Value::Object(wanted)) => fields(before, wanted),
        (Value::Array(before), Value::Array(wanted)) if LISTS_BY_NAME.contains(&field) => entries(before, wanted),
        (Value::Array(_), _) | (_, Value::Array(_)) => Err(Inexpressible),
        _ => Ok(Some(wanted.clone())),
    }
}

fn fields(before: &Map<String, Value>, wanted: &Map<String, Value>) -> Result<Option<Value>, Inexpressible> {
    let is_removed = |(name, value): (&String, &Value)| !wanted.contains_key(name) && !is_nothing(value);
    if before.iter().any(is_removed) {
        return Err(Inexpressible);
    }
    let mut changed = Map::new();
    for (name, value) in wanted {
        let change = match before.get(name) {
            Some(before) => difference(name, before, value)?,
            None => Some(value.clone()),
        };
        changed.extend(change.map(|change| (name.clone(), change)));
    }
    Ok((!changed.is_empty()).then_some(Value::Object(changed)))
}

fn entries(before: &[Value], wanted: &[Value]) -> Result<Option<Value>, Inexpressible> {
    if before.len() != wanted.len() {
        return Err(Inexpressible);
    }
    let mut changed = Vec::new();
    for (before, wanted) in before.iter().zip(wanted) {
        let name = wanted.get("name").ok_or(Inexpressible)?;
        if before.get("name") != Some(name) {
            return Err(Inexpressible);
        }
        if let Some(mut change) = difference("", before, wanted)? {
            change["name"] = name.clone();
            changed.push(change);
        }
    }
    Ok((!changed.is_empty()).then_some(Value::Array(changed)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(container: Value) -> Value {
        json!({"metadata": {"annotations": {"hash": container["image"]}}, "spec": {"template": {"spec": {"containers": [container]}}}})
    }

    #[test]
    fn changed_fields_are_patched_by_name() {
        let before = pod(
            json!({"name": "app", "image": "nginx:1", "args": ["a"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}),
        );
        let wanted = pod(
            json!({"name": "app", "image": "nginx:2", "args": ["a"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "resources": {"limits": {"cpu": "1"}}}),
        );
        assert_eq!(
            between(&before, &wanted),
            Some(pod(
                json!({"name": "app", "image": "nginx:2", "env": [{"name": "B", "value": "2"}], "resources": {"limits": {"cpu": "1"}}})
            ))
        );
        assert_eq!(between(&wanted, &wanted), None);
    }

    #[test]
    fn fields_outside_of_lists_are_restored() {
        let wanted = json!({"metadata": {"name": "web", "labels": {"a.b/c": "1", "d": "2"}}, "spec": {"replicas": 2, "type": "ClusterIP",
            "selector": {"a.b/c": "1"}, "ports": [{"port": 80}]}});
        let restored = |paths: &[&str]| restoring(&wanted, &paths.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            restored(&["labels.a.b/c"]),
            Some(json!({"metadata": {"labels": {"a.b/c": "1"}}}))
        );
        assert_eq!(
            restored(&["labels.d", "spec.replicas", "spec.selector.a.b/c"]),
            Some(json!({"metadata": {"labels": {"d": "2"}}, "spec": {"replicas": 2, "selector": {"a.b/c": "1"}}}))
        );
        assert_eq!(restored(&["spec.replicas", "spec.ports[80].name"]), None);
        assert_eq!(restored(&["spec.ports"]), None);
    }

    #[test]
    fn removals_and_other_lists_are_not_patched() {
        let before = json!({"name": "app", "image": "nginx", "args": ["a"], "tty": true, "env": [{"name": "A", "value": "1"}, {"name": "B"}]});
        for change in [
            json!({"args": ["b"]}),
            json!({"args": []}),
            json!({"tty": null}),
            json!({"env": [{"name": "A", "value": "1"}]}),
            json!({"env": [{"name": "B"}, {"name": "A", "value": "1"}]}),
            json!({"env": [{"name": "A"}, {"name": "B"}]}),
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C"}]}),
            json!({"name": "web"}),
        ] {
            let mut wanted = before.clone();
            for (field, value) in change.as_object().unwrap() {
                match value {
                    Value::Null => wanted.as_object_mut().unwrap().remove(field),
                    value => wanted.as_object_mut().unwrap().insert(field.clone(), value.clone()),
                };
            }
            assert_eq!(between(&pod(before.clone()), &pod(wanted)), None, "{change}");
        }
    }
}
