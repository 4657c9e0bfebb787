//! The bundle for the Operator Lifecycle Manager: a ClusterServiceVersion, and the other objects that OLM installs.
//!
//! OLM creates the namespace, the ServiceAccount, roles and bindings, and the webhooks' Service and certificates. It does
//! not support NetworkPolicies and admission policies; the latter are a separate file of the release.

mod descriptors;
mod permissions;
mod webhooks;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::fill::fill;
use crate::output::Files;
use crate::source::{self, Manifest};
use crate::text::Text;
use crate::{OPERATOR, VERSION};

/// The channel of this version in a catalog: nothing is stable yet.
const CHANNEL: &str = "candidate";
/// The annotation with the namespaces of the OperatorGroup; empty means all.
const TARGETS: &str = "metadata.annotations['olm.targetNamespaces']";
/// The folder into which OLM mounts the webhooks' certificate.
const CERTIFICATE: &str = "/tmp/k8s-webhook-server/serving-certs";
/// Kinds that are copied into the bundle unchanged.
const AS_THEY_ARE: [&str; 3] = ["CustomResourceDefinition", "ClusterRole", "PodDisruptionBudget"];

/// Returns the files of the bundle.
///
/// # Errors
/// When a manifest is missing, or the operator has a right that is neither namespaced nor cluster-scoped here.
pub fn bundle(config: &Path) -> Result<Files> {
    let manifests = source::read(config, "default")?;
    let blanks = [("package", OPERATOR), ("channel", CHANNEL)];
    let mut files = Files::from([
        (
            format!("manifests/{OPERATOR}.clusterserviceversion.yaml").into(),
            yaml(&service_version(config, &manifests)?)?,
        ),
        (
            "metadata/annotations.yaml".into(),
            fill(include_str!("../bundle/annotations.yaml"), &blanks)?,
        ),
        (
            "bundle.Dockerfile".into(),
            fill(include_str!("../bundle/bundle.Dockerfile"), &blanks)?,
        ),
    ]);
    for manifest in manifests.iter().filter(|manifest| is_taken(manifest)) {
        let mut text = Text::new(&manifest.text);
        if manifest.object["metadata"]["namespace"].is_string() {
            text.remove("metadata.namespace")?;
        }
        let name = manifest.path.file_name().context("a manifest has no file name")?;
        let twice = files.insert(Path::new("manifests").join(name), text.finish());
        ensure!(twice.is_none(), "two manifests are called {}", name.display());
    }
    Ok(files)
}

/// Returns whether a manifest is copied into the bundle. The rights of the operator are in the ClusterServiceVersion.
fn is_taken(manifest: &Manifest) -> bool {
    AS_THEY_ARE.contains(&manifest.kind())
        && !(manifest.kind() == "ClusterRole"
            && manifest.object["metadata"]["labels"]["app.kubernetes.io/name"] == OPERATOR)
}

/// Returns the ClusterServiceVersion: its description is in the base, the rest comes from the manifests.
fn service_version(config: &Path, manifests: &[Manifest]) -> Result<Value> {
    let base = config.join(format!("manifests/bases/{OPERATOR}.clusterserviceversion.yaml"));
    let mut version: Value = serde_yaml::from_str(&source::text(&base)?)
        .with_context(|| format!("{} is not one object of YAML", base.display()))?;
    let operator = source::operator(manifests)?;
    let samples: Vec<Value> = source::read(config, "samples")?
        .into_iter()
        .map(|sample| sample.object)
        .collect();

    version["metadata"]["name"] = format!("{OPERATOR}.v{VERSION}").into();
    let annotations = &mut version["metadata"]["annotations"];
    annotations["alm-examples"] = serde_json::to_string_pretty(&samples)?.into();
    annotations["containerImage"] = container(&operator.object)["image"].clone();
    // The platforms of a release's image.
    version["metadata"]["labels"] = json!({
        "operatorframework.io/os.linux": "supported",
        "operatorframework.io/arch.amd64": "supported",
    });
    let spec = &mut version["spec"];
    spec["version"] = VERSION.into();
    spec["icon"] = json!([{"base64data": source::icon(config)?, "mediatype": "image/svg+xml"}]);
    for kind in spec["customresourcedefinitions"]["owned"]
        .as_array_mut()
        .context("nothing is owned")?
    {
        descriptors::add(kind, manifests)?;
    }
    spec["install"] = json!({
        "strategy": "deployment",
        "spec": {
            "permissions": [permissions::in_namespaces(manifests)?],
            "clusterPermissions": [permissions::in_the_cluster(manifests)?],
            "deployments": [{
                "name": OPERATOR,
                "label": operator.object["metadata"]["labels"],
                "spec": deployment(operator)?,
            }],
        },
    });
    spec["webhookdefinitions"] = webhooks::definitions(manifests, container(&operator.object))?.into();
    Ok(version)
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

/// Returns the spec of the Deployment, with OLM's namespaces and certificate.
fn deployment(operator: &Manifest) -> Result<Value> {
    let mut spec = operator.object["spec"].clone();
    let env = spec["template"]["spec"]["containers"][0]["env"].as_array_mut();
    env.context("the operator has no environment")?.extend([
        json!({"name": "APPDEPLOY_WATCH_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": TARGETS}}}),
        json!({"name": "APPDEPLOY_WEBHOOK_CERT_DIR", "value": CERTIFICATE}),
    ]);
    Ok(spec)
}

/// Writes YAML that readers of YAML 1.1, such as OLM, read correctly.
fn yaml(value: &Value) -> Result<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options).context("failed to write YAML")
}
