//! What would be lost if this version took the place of a newer one: fields that its definition of the API does not know are
//! dropped from each object when it is written next.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::cluster::connection::Cluster;
use crate::cluster::kind_info;
use crate::cluster::pager::Pager;
use crate::error::{Error, Result};
use crate::installation::manifests::Kind;
use crate::installation::manifests::schema::{self, Field};
use crate::installation::version::PLUGIN;
use crate::output::formats::some;

/// Fails if a CRD would be replaced by one that drops fields of stored objects. A field that no object uses is not lost.
pub async fn refuse_loss(cluster: &Cluster, wanted: &[DynamicObject], before: &[Option<DynamicObject>]) -> Result<()> {
    for (wanted, before) in wanted.iter().zip(before) {
        let Some(before) = before.as_ref().filter(|_| Kind::of(wanted) == Kind::crd()) else {
            continue;
        };
        let unknown = schema::unknown_versions(before, &wanted.data);
        if !unknown.is_empty() {
            return Err(lossy(format!(
                "objects of {} are stored as {}, which this version does not have",
                wanted.name_any(),
                unknown.join(", ")
            )));
        }
        let fields = unknown_fields(&before.data, &wanted.data);
        if fields.is_empty() {
            continue;
        }
        let uses = uses(cluster, wanted, &fields).await?;
        if !uses.is_empty() {
            return Err(lossy(format!(
                "they use fields that this version does not have: {}",
                some(&uses)
            )));
        }
    }
    Ok(())
}

fn lossy(why: String) -> Error {
    Error::failed(format!(
        "{PLUGIN} would lose what a newer version has stored: nothing was changed"
    ))
    .why(why)
    .next("kubectl appdeploy version  (use the plugin of the installed version)")
}

/// Returns the fields of the version that is stored which the wanted definition does not have.
fn unknown_fields(before: &Value, wanted: &Value) -> Vec<Field> {
    let mut found = schema::lost(before, wanted);
    // Only the operator writes a status, and it writes all of it.
    found.retain(|field| field.path.first().is_some_and(|first| first != "status"));
    found
}

/// Whether an object has a value at a path.
fn has(object: &Value, path: &[String], schema: &Value) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return is_set(object, schema);
    };
    match (first.as_str(), object) {
        ("*", Value::Array(items)) => items.iter().any(|item| has(item, rest, schema)),
        ("*", Value::Object(fields)) => fields.values().any(|field| has(field, rest, schema)),
        (name, Value::Object(fields)) => fields.get(name).is_some_and(|field| has(field, rest, schema)),
        _ => false,
    }
}

/// Whether a value is set and differs from the default of the API server.
fn is_set(value: &Value, schema: &Value) -> bool {
    if value.is_null() || schema.get("default") == Some(value) {
        return false;
    }
    match (value, schema["properties"].as_object()) {
        (Value::Object(fields), Some(known)) if !fields.is_empty() => fields
            .iter()
            .any(|(name, field)| is_set(field, known.get(name).unwrap_or(&Value::Null))),
        _ => true,
    }
}

/// Returns which objects use which of these fields.
async fn uses(cluster: &Cluster, definition: &DynamicObject, fields: &[Field]) -> Result<Vec<String>> {
    let names = &definition.data["spec"]["names"];
    let Some(kind) = kind_info::ALL.into_iter().find(|kind| names["kind"] == kind.names.kind) else {
        return Ok(Vec::new());
    };
    let cluster = cluster.clone().about(kind);
    let mut pages = Pager::of(&cluster, None, None);
    let mut found = Vec::new();
    while let Some(page) = pages.next().await? {
        for object in &page {
            let used = fields
                .iter()
                .filter(|field| has(&object.data, &field.path, &field.schema));
            let namespace = object.namespace().unwrap_or_default();
            let title = kind_info::title(kind, &object.name_any());
            found.extend(used.map(|field| format!("{} of {title} in {namespace}", field.name())));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(spec: &Value) -> Value {
        let object = json!({"type": "object", "properties": {"spec": spec, "status": {"properties": {"new": {}}}}});
        json!({"spec": {"versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": object}}]}})
    }

    #[test]
    fn lost_field_is_found_at_any_depth() {
        let newer = json!({"properties": {
            "image": {}, "fancy": {},
            "env": {"items": {"properties": {"name": {}, "secret": {}}}},
            "labels": {"additionalProperties": {"properties": {"x": {}}}},
            "any": {"properties": {"y": {}}}}});
        let older = json!({"properties": {
            "image": {}, "env": {"items": {"properties": {"name": {}}}},
            "labels": {"additionalProperties": {"properties": {}}},
            "any": {"x-kubernetes-preserve-unknown-fields": true}}});
        let mut older = definition(&older);
        older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({});
        let paths = unknown_fields(&definition(&newer), &older);
        let mut paths: Vec<String> = paths.iter().map(Field::name).collect();
        paths.sort();
        assert_eq!(paths, ["spec.env.*.secret", "spec.fancy", "spec.labels.*.x"]);
        assert!(
            unknown_fields(&older, &definition(&newer)).is_empty(),
            "an upgrade loses nothing"
        );
    }

    #[test]
    fn field_that_no_object_uses_is_not_lost() {
        let path = |text: &str| -> Vec<String> { text.split('.').map(ToOwned::to_owned).collect() };
        let object = json!({"spec": {"env": [{"name": "A"}, {"name": "B", "secret": 1}], "gone": null}});
        let any = json!({});
        assert!(has(&object, &path("spec.env.*.secret"), &any));
        for nothing in ["spec.gone", "spec.fancy", "spec.env.*.other", "spec.env.name"] {
            assert!(!has(&object, &path(nothing), &any), "{nothing}");
        }
    }

    #[test]
    fn field_with_its_default_is_not_lost() {
        let schema = json!({"properties": {"mode": {"default": "calm"}, "limit": {}}, "default": {}});
        for unset in [json!(null), json!({}), json!({"mode": "calm"})] {
            assert!(!is_set(&unset, &schema), "{unset}");
        }
        for set in [
            json!({"mode": "wild"}),
            json!({"limit": 1}),
            json!({"mode": "calm", "limit": 1}),
        ] {
            assert!(is_set(&set, &schema), "{set}");
        }
        assert!(!is_set(&json!(3), &json!({"default": 3})) && is_set(&json!(4), &json!({"default": 3})));
    }
}
