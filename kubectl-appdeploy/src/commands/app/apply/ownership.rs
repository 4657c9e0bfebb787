//! Field ownership: fields that other commands of this plugin have set can be removed by a file.
//!
//! `create` and `set` write like any client, `apply` by server-side apply, and the server keeps a record of each. A
//! field that is only in the first record could never be removed by a file. So it is moved into the second before a file
//! is applied, as `kubectl apply --server-side` does with fields that client-side apply wrote.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value};

use crate::cluster::connection::MANAGER;

const APPLY: &str = "Apply";
/// The key for a field or an item itself, next to the keys of its content.
const ITSELF: &str = ".";

/// Fields that files usually do not have: a file that does not name them keeps them.
const ORDERS: [&[&str]; 3] = [
    &["f:metadata", "f:annotations", "f:appdeploy.dev/adopted-at"],
    &["f:metadata", "f:annotations", "f:appdeploy.dev/restarted-at"],
    &["f:spec", "f:paused"],
];

/// A set of fields, as a record has it.
type Fields = Map<String, Value>;

/// Returns the record after the fields that our other commands have set were moved to those that were applied; nothing if there
/// are none.
pub fn taken_over(record: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    let mut moved = None;
    let mut kept = Vec::new();
    for entry in record {
        if !is_ours(entry) || is_applied(entry) {
            kept.push(entry.clone());
            continue;
        }
        let (stay, go) = apart(&fields(entry), &ORDERS);
        if !stay.is_empty() {
            kept.push(with(entry, stay));
        }
        if !go.is_empty() {
            let before = moved.map_or_else(Fields::new, |(fields, _)| fields);
            moved = Some((union(&before, &go), entry));
        }
    }
    let (moved, source) = moved?;
    match kept.iter_mut().find(|entry| is_ours(entry) && is_applied(entry)) {
        Some(applied) => *applied = with(applied, union(&fields(applied), &moved)),
        None => kept.push(ManagedFieldsEntry {
            operation: Some(APPLY.to_owned()),
            ..with(source, moved)
        }),
    }
    Some(kept)
}

/// Returns the fields that an apply removes: those that only we own and that the manifest does not name.
pub fn dropped(record: &[ManagedFieldsEntry], manifest: &Value) -> Value {
    let mut ours = Fields::new();
    for entry in record.iter().filter(|entry| is_ours(entry)) {
        let of = fields(entry);
        let go = if is_applied(entry) { of } else { apart(&of, &ORDERS).1 };
        ours = union(&ours, &go);
    }
    for entry in record.iter().filter(|entry| !is_ours(entry)) {
        ours = without(&ours, &fields(entry));
    }
    Value::Object(unnamed(&ours, manifest))
}

/// Removes fields from an object, and maps that are empty then.
pub fn remove(object: &mut Value, gone: &Value) {
    for (key, below) in gone.as_object().into_iter().flatten() {
        let is_all = below.as_object().is_none_or(Map::is_empty);
        let is_gone = |value: &mut Value| {
            remove(value, below);
            is_all || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
        };
        if let (Value::Object(fields), Some(name)) = (&mut *object, key.strip_prefix("f:")) {
            if fields.get_mut(name).is_some_and(is_gone) {
                fields.remove(name);
            }
        } else if let Value::Array(items) = object {
            items.retain_mut(|item| !(is_item(key, item) && is_gone(item)));
        }
    }
}

/// Whether it is about an object as a whole (the scale subresource has a record of its own) and of this plugin.
fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(MANAGER) && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

fn is_applied(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some(APPLY)
}

fn fields(entry: &ManagedFieldsEntry) -> Fields {
    let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.as_object());
    fields.cloned().unwrap_or_default()
}

fn with(entry: &ManagedFieldsEntry, fields: Fields) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        fields_v1: Some(FieldsV1(Value::Object(fields))),
        ..entry.clone()
    }
}

fn below(value: &Value) -> Fields {
    value.as_object().cloned().unwrap_or_default()
}

/// Takes the orders apart from the rest.
fn apart(all: &Fields, orders: &[&[&str]]) -> (Fields, Fields) {
    let (mut stay, mut go) = (Fields::new(), Fields::new());
    for (key, value) in all {
        let orders: Vec<&[&str]> = orders
            .iter()
            .filter_map(|path| path.split_first().filter(|(first, _)| *first == key))
            .map(|(_, rest)| rest)
            .collect();
        if orders.iter().any(|rest| rest.is_empty()) {
            stay.insert(key.clone(), value.clone());
        } else if orders.is_empty() {
            go.insert(key.clone(), value.clone());
        } else {
            let (of_orders, others) = apart(&below(value), &orders);
            for (part, fields) in [(&mut stay, of_orders), (&mut go, others)] {
                if !fields.is_empty() {
                    part.insert(key.clone(), Value::Object(fields));
                }
            }
        }
    }
    // What holds an order stays with it.
    if !stay.is_empty()
        && let Some(itself) = go.remove(ITSELF)
    {
        stay.insert(ITSELF.to_owned(), itself);
    }
    (stay, go)
}

fn union(one: &Fields, other: &Fields) -> Fields {
    let mut all = one.clone();
    for (key, value) in other {
        let both = match all.get(key) {
            Some(known) => {
                let (known, value) = (below(known), below(value));
                let mut both = union(&known, &value);
                // Without anything in it, a key is the field itself.
                if known.is_empty() != value.is_empty() {
                    both.insert(ITSELF.to_owned(), Value::Object(Fields::new()));
                }
                Value::Object(both)
            }
            None => value.clone(),
        };
        all.insert(key.clone(), both);
    }
    all
}

fn without(all: &Fields, others: &Fields) -> Fields {
    let left = all.iter().filter_map(|(key, value)| {
        let Some(other) = others.get(key) else {
            return Some((key.clone(), value.clone()));
        };
        let left = without(&below(value), &below(other));
        (!left.is_empty()).then_some((key.clone(), Value::Object(left)))
    });
    left.collect()
}

/// Returns the part of a set of fields that a value does not have.
fn unnamed(fields: &Fields, value: &Value) -> Fields {
    let parts = fields
        .iter()
        .filter(|(key, _)| *key != ITSELF)
        .filter_map(|(key, all)| {
            let named = match key.strip_prefix("f:") {
                Some(name) => value.get(name),
                None => value
                    .as_array()
                    .and_then(|items| items.iter().find(|item| is_item(key, item))),
            };
            match named {
                None => Some((key.clone(), all.clone())),
                Some(named) => {
                    let part = unnamed(&below(all), named);
                    (!part.is_empty()).then_some((key.clone(), Value::Object(part)))
                }
            }
        });
    parts.collect()
}

/// Whether a key in managedFields is for an item of a list, by its key fields or by its value.
fn is_item(key: &str, item: &Value) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    match key.split_once(':') {
        Some(("k", keys)) => {
            let keys = read(keys);
            keys.as_object()
                .is_some_and(|keys| keys.iter().all(|(field, value)| item.get(field) == Some(value)))
        }
        Some(("v", value)) => *item == read(value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    fn variable() -> Value {
        json!({".": {}, "f:name": {}, "f:value": {}})
    }

    #[test]
    fn fields_of_set_move_to_apply_except_scale_and_pause() {
        let set = json!({
            "f:metadata": {"f:annotations": {".": {}, "f:a": {}, "f:appdeploy.dev/restarted-at": {}}},
            "f:spec": {"f:image": {}, "f:paused": {}, "f:env": {".": {}, r#"k:{"name":"B"}"#: variable()}},
        });
        let scaled = ManagedFieldsEntry {
            subresource: Some("scale".to_owned()),
            ..entry(MANAGER, "Update", json!({"f:spec": {"f:replicas": {}}}))
        };
        let foreign = entry("kubectl-edit", "Update", json!({"f:spec": {"f:port": {}}}));
        let applied = entry(
            MANAGER,
            APPLY,
            json!({"f:spec": {"f:host": {}, "f:env": {r#"k:{"name":"A"}"#: variable()}}}),
        );
        let orders = entry(
            MANAGER,
            "Update",
            json!({"f:metadata": {"f:annotations": {".": {}, "f:appdeploy.dev/restarted-at": {}}}, "f:spec": {"f:paused": {}}}),
        );
        let moved = json!({"f:metadata": {"f:annotations": {"f:a": {}}}, "f:spec": {"f:image": {}, "f:host": {},
            "f:env": {".": {}, r#"k:{"name":"A"}"#: variable(), r#"k:{"name":"B"}"#: variable()}}});
        let record = [entry(MANAGER, "Update", set), scaled.clone(), foreign.clone(), applied];
        let after = [orders, scaled, foreign, entry(MANAGER, APPLY, moved)];
        assert_eq!(taken_over(&record), Some(after.to_vec()));
        // The remaining fields need no move.
        assert_eq!(taken_over(&after), None);
        // Where nothing was applied yet, there is a record of it from now on.
        let record = [entry(MANAGER, "Update", json!({"f:spec": {"f:image": {}}}))];
        let after = [entry(MANAGER, APPLY, json!({"f:spec": {"f:image": {}}}))];
        assert_eq!(taken_over(&record), Some(after.to_vec()));
    }

    #[test]
    fn field_that_a_file_drops_is_removed_unless_another_manager_owns_it() {
        let record = [
            entry(
                MANAGER,
                APPLY,
                json!({"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:image": {}, "f:port": {}, "f:host": {},
                    "f:resources": {"f:limits": {"f:cpu": {}}},
                    "f:env": {r#"k:{"name":"A"}"#: variable(), r#"k:{"name":"B"}"#: variable()}}}),
            ),
            entry(MANAGER, "Update", json!({"f:spec": {"f:paused": {}, "f:path": {}}})),
            entry("kubectl-edit", "Update", json!({"f:spec": {"f:port": {}}})),
        ];
        let manifest = json!({"metadata": {"name": "shop"}, "spec": {"image": "nginx:2",
            "env": [{"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "b"}}}]}});
        let gone = dropped(&record, &manifest);
        assert_eq!(
            gone,
            json!({"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:host": {}, "f:path": {},
                "f:resources": {"f:limits": {"f:cpu": {}}},
                "f:env": {r#"k:{"name":"A"}"#: variable(), r#"k:{"name":"B"}"#: {"f:value": {}}}}})
        );
        let mut object = json!({"metadata": {"name": "shop", "labels": {"team": "x"}}, "spec": {"image": "nginx:1", "port": 80,
            "host": "a.b", "path": "/", "paused": true, "resources": {"limits": {"cpu": "1"}},
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]}});
        remove(&mut object, &gone);
        assert_eq!(
            object,
            json!({"metadata": {"name": "shop"}, "spec": {"image": "nginx:1", "port": 80, "paused": true,
                "env": [{"name": "B"}, {"name": "C", "value": "3"}]}})
        );
        let whole = json!({"spec": {"image": 1, "port": 1, "host": 1, "path": 1, "resources": {"limits": {"cpu": 1}},
            "env": [{"name": "A", "value": ""}, {"name": "B", "value": ""}]}, "metadata": {"labels": {"team": "y"}}});
        assert_eq!(dropped(&record, &whole), json!({}));
    }
}
