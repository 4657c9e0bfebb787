//! Webhook configurations of one run: they route the reviews of its namespaces to its operator.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::checkout::manifest;
use testcluster::pki::Authority;
use testcluster::port::free_address;

/// The kinds of webhook configurations, each with the path of its webhook.
const KINDS: [(&str, &str); 2] = [("validating", "validate"), ("mutating", "mutate")];

/// Where the operator of a run serves webhooks.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// The address that it listens on.
    pub bind: SocketAddr,
    /// The folder with tls.crt and tls.key.
    pub certificates: PathBuf,
}

impl Webhooks {
    /// Creates a certificate, and the webhook configurations of `install` limited to some namespaces.
    ///
    /// # Errors
    /// When the API server rejects them, or a certificate can't be created.
    pub fn install(control_plane: &ControlPlane, run: &str, namespaces: &[String]) -> Result<Self> {
        let bind = free_address();
        let certificates = control_plane.fresh_path(&format!("webhooks-{run}"), "d");
        let authority = Authority::new("webhooks")?;
        let identity = authority.server("webhooks", &["127.0.0.1"])?;
        std::fs::create_dir_all(&certificates).context("failed to create a folder for certificates")?;
        for (file, text) in [("tls.crt", &identity.certificate), ("tls.key", &identity.key)] {
            std::fs::write(certificates.join(file), text).with_context(|| format!("failed to write {file}"))?;
        }
        let admin = control_plane.kubectl_as(&control_plane.kubeconfig());
        for (kind, path) in KINDS {
            let text = admin.read(&manifest(&format!("webhook/{kind}"))?)?;
            let mut configuration: Value = serde_json::from_str(&text)?;
            configuration["metadata"]["name"] = name(run).into();
            for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"] = json!({
                    "url": format!("https://{bind}/{path}"), "caBundle": STANDARD.encode(authority.certificate()),
                });
                webhook["namespaceSelector"] = json!({"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces},
                ]});
            }
            control_plane.apply(&configuration.to_string())?;
        }
        Ok(Self { bind, certificates })
    }

    /// Deletes the webhook configurations of a run.
    ///
    /// # Errors
    /// When the API server rejects it.
    pub fn remove(control_plane: &ControlPlane, run: &str) -> Result<()> {
        for (kind, _) in KINDS {
            let kind = format!("{kind}webhookconfiguration");
            control_plane.kubectl(&["delete", &kind, &name(run), "--ignore-not-found"])?;
        }
        Ok(())
    }
}

fn name(run: &str) -> String {
    format!("appdeploy-{run}")
}
