//! The rights in the roles of config/rbac.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Deserialize;
use serde_yaml::{Deserializer, Value};

use super::Right;

/// The label that distinguishes the operator's roles from those for people.
const OPERATOR: (&str, &str) = ("app.kubernetes.io/name", "appdeploy-operator");

#[derive(Deserialize)]
struct Role {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    api_groups: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// Returns the rights of the operator's roles among these documents.
pub(super) fn granted_by(text: &str) -> Result<BTreeSet<Right>> {
    let mut granted = BTreeSet::new();
    for document in Deserializer::from_str(text) {
        let value = Value::deserialize(document)?;
        if !["Role", "ClusterRole"].contains(&value["kind"].as_str().unwrap_or_default()) {
            continue;
        }
        let role: Role = serde_yaml::from_value(value)?;
        let (label, name) = OPERATOR;
        if role.metadata.labels.get(label).is_none_or(|value| value != name) {
            continue;
        }
        let namespace = role.metadata.namespace.filter(|_| role.kind == "Role");
        for rule in role.rules {
            granted.extend(rule.rights(namespace.as_ref()));
        }
    }
    Ok(granted)
}

impl Rule {
    fn rights(&self, namespace: Option<&String>) -> Vec<Right> {
        let mut names: Vec<_> = self.resource_names.iter().cloned().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        let mut rights = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    rights.extend(names.iter().map(|name| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                        namespace: namespace.cloned(),
                    }));
                }
            }
        }
        rights
    }
}
