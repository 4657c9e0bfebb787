//! Fields of children that the API server does not store: it is too old, a feature gate is off, or a policy removes them.

use serde_json::Value;

/// What an API server says of each field that its schema does not have, after the path of the field.
const UNDECLARED: &str = ": field not declared in schema";

/// Returns a sentence for the condition and the Event about the fields at `paths` of `of`.
#[must_use]
pub fn describe(paths: &[String], of: &str) -> String {
    format!(
        "the API server has not stored {} of {of}: it is too old, a feature gate is off, or a policy removes the field; update \
         the cluster, or remove the field from the spec",
        paths.join(", ")
    )
}

/// Returns an object without the fields that the API server does not know, according to its answer to an apply. Unlike a create,
/// an apply is rejected because of such a field. `None` if it was rejected for another reason.
#[must_use]
pub fn without_undeclared(object: &Value, answer: &str) -> Option<Value> {
    let mut rest = object.clone();
    let mut parts = answer.split(UNDECLARED).peekable();
    let mut is_changed = false;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            // The text after the last field.
            break;
        }
        let path = part.rsplit([' ', '\n', '\t']).next()?;
        remove(&mut rest, path)?;
        is_changed = true;
    }
    is_changed.then_some(rest)
}

/// Removes the field at a path like `.spec.volumes[name="assets"].image`. `None` if there is none.
fn remove(object: &mut Value, path: &str) -> Option<()> {
    let (parent, field) = path.rsplit_once('.')?;
    let mut at = object;
    let mut rest = parent;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            at = at.get_mut(name)?;
            rest = tail;
        } else {
            let (keys, tail) = rest.strip_prefix('[')?.split_once(']')?;
            at = item(at, keys)?;
            rest = tail;
        }
    }
    at.as_object_mut()?.remove(field).map(drop)
}

/// Returns the item of a list that has these keys, like `containerPort=80,protocol="TCP"`. A key that the item does not have was
/// set to its default.
fn item<'a>(list: &'a mut Value, keys: &str) -> Option<&'a mut Value> {
    let keys: Option<Vec<(&str, Value)>> = keys
        .split(',')
        .map(|key| {
            let (name, value) = key.split_once('=')?;
            Some((name, serde_json::from_str(value).ok()?))
        })
        .collect();
    let keys = keys?;
    let has = |item: &Value, (name, value): &(&str, Value)| item.get(*name).is_none_or(|own| own == value);
    let mut items = list.as_array_mut()?.iter_mut();
    items.find(|item| item.is_object() && keys.iter().all(|key| has(item, key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({"spec": {"template": {"spec": {"new": 1, "containers": [
            {"name": "app", "ports": [{"containerPort": 80, "b": 1}, {"containerPort": 81, "protocol": "UDP", "b": 2}]}],
            "volumes": [{"name": "a.b", "emptyDir": {}}, {"name": "assets", "image": {"reference": "a"}}]}}}})
    }

    #[test]
    fn fields_that_an_apply_is_rejected_for_are_left_out() {
        let one = "failed to create typed patch object (blue/shop; apps/v1, Kind=Deployment): \
                   .spec.template.spec.volumes[name=\"assets\"].image: field not declared in schema";
        let mut expected = deployment();
        expected["spec"]["template"]["spec"]["volumes"][1] = json!({"name": "assets"});
        assert_eq!(without_undeclared(&deployment(), one), Some(expected.clone()));

        let several = "failed to create typed patch object (blue/shop; apps/v1, Kind=Deployment): errors:\n  \
                       .spec.template.spec.new: field not declared in schema\n  \
                       .spec.template.spec.volumes[name=\"assets\"].image: field not declared in schema\n  \
                       .spec.template.spec.containers[name=\"app\"].ports[containerPort=80,protocol=\"TCP\"].b: \
                       field not declared in schema";
        let spec = &mut expected["spec"]["template"]["spec"];
        spec.as_object_mut().unwrap().remove("new");
        spec["containers"][0]["ports"][0] = json!({"containerPort": 80});
        assert_eq!(without_undeclared(&deployment(), several), Some(expected));
    }

    #[test]
    fn other_answers_leave_nothing_out() {
        for answer in [
            "",
            "Deployment.apps \"shop\" is invalid",
            ": field not declared in schema",
            ".spec.unknown: field not declared in schema",
            ".spec.template.spec.volumes[name=\"b\"].image: field not declared in schema",
            ".spec.template.spec.volumes[name=assets].image: field not declared in schema",
        ] {
            assert_eq!(without_undeclared(&deployment(), answer), None, "{answer}");
        }
    }
}
