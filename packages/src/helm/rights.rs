//! The operator's rights: cluster-wide, or the same in each managed namespace.
//!
//! The plugin's `install --watch-namespace` does the same with objects; a test compares the two.

use anyhow::Result;
use serde_json::Value;

use crate::scope;
use crate::source::Manifest;
use crate::text::Text;

/// Returns the template of a role of the operator or of its binding: `text`, and the namespaced variant.
pub fn in_each_or_all(manifest: &Manifest, mut text: Text) -> Result<String> {
    for (index, rule) in rules(manifest).iter().enumerate().rev() {
        if scope::is_for_webhooks(rule) {
            let path = format!("rules.{index}");
            text.wrap(&path, "{{- if include \"appdeploy.webhooks\" $ }}", "{{- end }}")?;
        }
    }
    let each = in_one(manifest, text.clone())?.finish();
    let all = text.finish();
    Ok(format!(
        "{{{{- range .Values.operator.watchNamespaces | uniq | sortAlpha }}}}\n---\n{each}{{{{- else }}}}\n{all}{{{{- end }}}}\n"
    ))
}

/// Turns a cluster-wide role or binding into a namespaced one.
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
    // From the last to the first, because removing a rule changes the indexes of the rules after it.
    for (index, rule) in rules(manifest).iter().enumerate().rev() {
        let (granted, of_the_cluster) = scope::resources(rule);
        if granted.is_empty() {
            text.remove(&format!("rules.{index}"))?;
        } else if !of_the_cluster.is_empty() {
            let resources = format!("resources: [{}]", granted.join(", "));
            text.replace(&format!("rules.{index}.resources"), &resources)?;
        }
    }
    Ok(text)
}

fn rules(manifest: &Manifest) -> &[Value] {
    manifest.object["rules"].as_array().map_or(&[], Vec::as_slice)
}
