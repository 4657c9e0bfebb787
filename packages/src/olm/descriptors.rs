//! Descriptions of fields for the pages of a catalog, from the schema of a kind.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::source::Manifest;

/// The display types of fields that the pages support.
const SHOWN: [(&str, &str); 4] = [
    ("replicas", "urn:alm:descriptor:com.tectonic.ui:podCount"),
    ("resources", "urn:alm:descriptor:com.tectonic.ui:resourceRequirements"),
    ("conditions", "urn:alm:descriptor:io.kubernetes.conditions"),
    ("url", "urn:alm:descriptor:org.w3:link"),
];

/// Adds the fields of spec and status to the description of an owned kind.
pub fn add(owned: &mut Value, manifests: &[Manifest]) -> Result<()> {
    let name = owned["name"].as_str().context("a kind has no name")?;
    let definition = manifests
        .iter()
        .find(|manifest| manifest.kind() == "CustomResourceDefinition" && manifest.name() == name)
        .with_context(|| format!("there is no definition of {name}"))?;
    let versions = definition.object["spec"]["versions"].as_array().into_iter().flatten();
    let schema = versions
        .filter(|version| version["name"] == owned["version"])
        .map(|version| &version["schema"]["openAPIV3Schema"]["properties"])
        .next()
        .with_context(|| format!("{name} has no version {}", owned["version"]))?;
    let (spec, status) = (fields(&schema["spec"]), fields(&schema["status"]));
    owned["specDescriptors"] = spec.into();
    owned["statusDescriptors"] = status.into();
    Ok(())
}

fn fields(schema: &Value) -> Vec<Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(|(path, schema)| field(path, schema)).collect()
}

fn field(path: &str, schema: &Value) -> Value {
    let mut field = json!({"path": path, "displayName": title(path)});
    if schema["description"].is_string() {
        field["description"] = schema["description"].clone();
    }
    if let Some((_, shown)) = SHOWN.iter().find(|(name, _)| *name == path) {
        field["x-descriptors"] = json!([shown]);
    }
    field
}

/// Returns the display name of a field: `healthCheck` is `Health check`.
fn title(path: &str) -> String {
    let mut title = String::new();
    for letter in path.chars() {
        if title.is_empty() {
            title.extend(letter.to_uppercase());
        } else if letter.is_uppercase() {
            title.push(' ');
            title.extend(letter.to_lowercase());
        } else {
            title.push(letter);
        }
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_has_its_description() {
        let schema = json!({"properties": {"healthCheck": {"description": "How it is asked."}, "url": {}}});
        assert_eq!(
            fields(&schema),
            [
                json!({"path": "healthCheck", "displayName": "Health check", "description": "How it is asked."}),
                json!({"path": "url", "displayName": "Url", "x-descriptors": ["urn:alm:descriptor:org.w3:link"]}),
            ]
        );
    }
}
