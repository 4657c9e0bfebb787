//! Two definitions of a kind compared, field by field.

use futures::future::try_join_all;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{Kind, Options};
use crate::cluster::connection::Cluster;
use crate::error::Result;
use crate::installation::manifests;

/// A field that one definition has and another one does not.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The way to it from the object. `*` is each element of a list, and each value of a map.
    pub path: Vec<String>,
    /// Its schema, with its default.
    pub schema: Value,
}

impl Field {
    /// Returns its path as a person writes it.
    pub fn name(&self) -> String {
        self.path.join(".")
    }
}

/// The comparison of the CRD in a cluster with the CRD of this plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skew {
    /// They are the same.
    None,
    /// That of the cluster has fields that this plugin does not know; these.
    Newer(Vec<String>),
    /// That of the cluster lacks fields that this plugin knows; these.
    Older(Vec<String>),
    /// They have the same fields, with other rules or descriptions.
    Other,
}

impl Skew {
    /// Returns the message about a CRD of this name with other fields, and the next command.
    pub fn warning(&self, name: &str) -> Option<(String, &[String], &'static str)> {
        match self {
            Self::None | Self::Other => None,
            Self::Newer(fields) => Some((
                format!("{name} is newer than this plugin, which does not have all its fields"),
                fields,
                "use the plugin of the version that is installed",
            )),
            Self::Older(fields) => Some((
                format!("{name} is older than this plugin: fields that it does not have can't be stored"),
                fields,
                "kubectl appdeploy install",
            )),
        }
    }
}

/// Compares the CRDs of a cluster with the CRDs of this plugin, by name. CRDs that do not exist are omitted.
pub async fn skews(cluster: &Cluster) -> Result<Vec<(String, Skew)>> {
    let kind = Kind::crd();
    let mut wanted = manifests::objects(&Options::default())?;
    wanted.retain(|object| Kind::of(object) == kind);
    let looks = wanted.iter().map(|wanted| async {
        let name = wanted.name_any();
        let found = cluster.call(kind.api(&cluster.client, None).get_opt(&name)).await?;
        Ok(found.map(|found| (name, skew(&found.data, &wanted.data))))
    });
    Ok(try_join_all(looks).await?.into_iter().flatten().collect())
}

/// Compares the CRD in a cluster with the desired one.
pub fn skew(found: &Value, wanted: &Value) -> Skew {
    let names = |fields: Vec<Field>| fields.iter().map(Field::name).collect::<Vec<_>>();
    let newer = names(lost(found, wanted));
    if !newer.is_empty() {
        return Skew::Newer(newer);
    }
    let older = names(lost(wanted, found));
    if !older.is_empty() {
        return Skew::Older(older);
    }
    let is_same =
        stored(found).all(|version| of(wanted, version).is_some_and(|other| schema(other) == schema(version)));
    if is_same { Skew::None } else { Skew::Other }
}

/// Returns the fields of the version that is stored by one definition which another one does not have.
pub fn lost(before: &Value, wanted: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    for version in stored(before) {
        if let Some(other) = of(wanted, version) {
            compare(schema(version), schema(other), &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Returns the versions in which objects are stored and that another definition does not have.
pub fn unknown_versions(before: &DynamicObject, wanted: &Value) -> Vec<String> {
    let stored = before.data["status"]["storedVersions"].as_array().into_iter().flatten();
    let served = wanted["spec"]["versions"].as_array();
    let is_known = |version: &&Value| served.into_iter().flatten().any(|known| known["name"] == **version);
    stored
        .filter(|version| !is_known(version))
        .filter_map(|version| version.as_str().map(ToOwned::to_owned))
        .collect()
}

fn stored(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["storage"] == true)
}

fn of<'a>(definition: &'a Value, version: &Value) -> Option<&'a Value> {
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.find(|other| other["name"] == version["name"])
}

fn schema(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

/// Collects the fields of one schema that another one does not have.
fn compare(before: &Value, wanted: &Value, at: &mut Vec<String>, found: &mut Vec<Field>) {
    // What takes anything loses nothing.
    if wanted["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, schema) in before["properties"].as_object().into_iter().flatten() {
        at.push(name.clone());
        match &wanted["properties"][name] {
            Value::Null => found.push(Field {
                path: at.clone(),
                schema: schema.clone(),
            }),
            other => compare(schema, other, at, found),
        }
        at.pop();
    }
    for inner in ["items", "additionalProperties"] {
        if before[inner].is_object() {
            at.push("*".to_owned());
            compare(&before[inner], &wanted[inner], at, found);
            at.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(spec: Value) -> Value {
        let schema = json!({"properties": {"spec": {"properties": spec}}});
        json!({"spec": {"versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    }

    #[test]
    fn schema_with_more_fields_is_newer() {
        let (small, large) = (json!({"a": {}}), json!({"a": {}, "b": {}}));
        let compared = |found: &Value, wanted: &Value| skew(&definition(found.clone()), &definition(wanted.clone()));
        assert_eq!(compared(&small, &small), Skew::None);
        assert_eq!(compared(&large, &small), Skew::Newer(vec!["spec.b".to_owned()]));
        assert_eq!(compared(&small, &large), Skew::Older(vec!["spec.b".to_owned()]));
        assert_eq!(compared(&json!({"a": {"maximum": 3}}), &small), Skew::Other);
    }

    #[test]
    fn unknown_stored_version_is_reported() {
        let before: DynamicObject =
            serde_json::from_value(json!({"metadata": {}, "spec": {}, "status": {"storedVersions": ["v1", "v2"]}}))
                .unwrap();
        assert_eq!(unknown_versions(&before, &definition(json!({}))), ["v2"]);
    }
}
