//! The webhooks for OLM: it creates the Service and the certificates, and limits them to the managed namespaces.
//!
//! It does not support match conditions. The operator itself admits the requests that the conditions would exclude:
//! objects that are being deleted, and its own writes, which change no spec.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::OPERATOR;
use crate::source::Manifest;

/// Fields with the same name on both sides.
const SAME: [&str; 6] = [
    "admissionReviewVersions",
    "failurePolicy",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
];

/// Returns the definitions of all webhooks of the operator's container.
pub fn definitions(manifests: &[Manifest], container: &Value) -> Result<Vec<Value>> {
    let mut definitions = Vec::new();
    for manifest in manifests {
        let Some(name) = manifest.kind().strip_suffix("WebhookConfiguration") else {
            continue;
        };
        for webhook in manifest.object["webhooks"].as_array().into_iter().flatten() {
            let service = &webhook["clientConfig"]["service"];
            let (port, target) = ports(manifests, service, container)
                .with_context(|| format!("nothing serves the webhook {}", webhook["name"]))?;
            let mut definition = json!({
                "type": format!("{name}AdmissionWebhook"),
                "generateName": webhook["name"],
                "deploymentName": OPERATOR,
                "containerPort": port,
                "targetPort": target,
                "webhookPath": service["path"],
            });
            for field in SAME {
                if !webhook[field].is_null() {
                    definition[field] = webhook[field].clone();
                }
            }
            definitions.push(definition);
        }
    }
    Ok(definitions)
}

/// Returns the port of the Service, and the container's port.
fn ports<'a>(manifests: &'a [Manifest], service: &Value, container: &'a Value) -> Option<(&'a Value, &'a Value)> {
    let name = service["name"].as_str()?;
    let found = manifests
        .iter()
        .find(|manifest| manifest.kind() == "Service" && manifest.name() == name)?;
    let port = &found.object["spec"]["ports"][0];
    let ports = container["ports"].as_array()?;
    let target = ports.iter().find(|open| open["name"] == port["targetPort"])?;
    Some((&port["port"], &target["containerPort"]))
}
