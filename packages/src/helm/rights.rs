//! The operator's rights: in the whole cluster, or the same in each namespace that it looks after.
//!
//! The plugin's `install --watch-namespace` says the same of objects; a test compares the two.

use anyhow::Result;
use serde_json::Value;

use crate::source::Manifest;
use crate::text::Text;

/// What lives in no namespace, and so can't be granted in one. The operator does without it.
const OF_THE_CLUSTER: [&str; 1] = ["ingressclasses"];

/// Returns the template of a role of the operator or of its binding: `text`, and its like for a namespace.
pub fn in_each_or_all(manifest: &Manifest, text: Text) -> Result<String> {
    let each = in_one(manifest, text.clone())?.finish();
    let all = text.finish();
    Ok(format!(
        "{{{{- range .Values.operator.watchNamespaces | uniq | sortAlpha }}}}\n---\n{each}{{{{- else }}}}\n{all}{{{{- end }}}}\n"
    ))
}

/// Makes of what counts in the whole cluster what counts in the namespace at hand.
fn in_one(manifest: &Manifest, text: Text) -> Result<Text> {
    let mut text = text.without_heading();
    text.replace(
        "kind",
        &format!("kind: {}", manifest.kind().trim_start_matches("Cluster")),
    )?;
    text.insert_after("metadata.name", "namespace: {{ . }}")?;
    if manifest.object["roleRef"].is_object() {
        text.replace("roleRef.kind", "kind: Role")?;
    }
    // From the last to the first, since one that goes changes the numbers of those behind it.
    for (index, rule) in rules(manifest).iter().enumerate().rev() {
        let resources: Vec<&str> = rule["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let granted: Vec<&str> = resources
            .iter()
            .copied()
            .filter(|resource| !OF_THE_CLUSTER.contains(resource))
            .collect();
        if granted.is_empty() {
            text.remove(&format!("rules.{index}"))?;
        } else if granted != resources {
            text.replace(
                &format!("rules.{index}.resources"),
                &format!("resources: [{}]", granted.join(", ")),
            )?;
        }
    }
    Ok(text)
}

fn rules(manifest: &Manifest) -> &[Value] {
    manifest.object["rules"].as_array().map_or(&[], Vec::as_slice)
}
