//! A template made of a manifest: what a value may change stands where the manifest has it.

use anyhow::{Context as _, Result};

use super::rights;
use crate::source::Manifest;
use crate::text::Text;
use crate::{NAMESPACE, OPERATOR};

/// The policy that protects the definitions, and its binding.
const DEFINITIONS: &str = "appdeploy-definitions";
/// What Helm's users look for on an object.
const LABELS: &str = "{{- include \"appdeploy.labels\" $ | nindent 4 }}";
/// Keeps Helm from deleting a definition with its release, or has the admission policy allow it.
const KEEP: &str = "\
{{- if .Values.crds.keep }}
helm.sh/resource-policy: keep
{{- else }}
appdeploy.dev/allow-deletion: \"true\"
{{- end }}";
/// Keeps what protects the definitions for as long as they are kept.
const KEEP_WITH_DEFINITIONS: &str = "\
{{- if .Values.crds.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}";
/// What a cluster's owner may want of the operator's pods.
const PLACEMENT: &str = "\
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 8 }}
{{- end }}";
const IMAGE: &str = "\
image: {{ include \"appdeploy.image\" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- with include \"appdeploy.args\" . }}
args: {{- . | nindent 8 }}
{{- end }}";
const RESOURCES: &str = "resources: {{- toYaml .Values.resources | nindent 10 }}";
const POD_ANNOTATIONS: &str = "{{- with .Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}";
const API_SERVER_PORTS: &str = "\
ports:
{{- range .Values.networkPolicy.apiServerPorts }}
- port: {{ . }}
{{- end }}";

/// An operator of some namespaces knows nothing of the others, and is asked about these.
const NAMESPACE_SELECTOR: &str = "\
{{- with .Values.operator.watchNamespaces }}
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: In
    values: {{- . | uniq | sortAlpha | toYaml | nindent 6 }}
{{- end }}";

/// Returns the template of a manifest.
pub fn of(manifest: &Manifest) -> Result<String> {
    // What is in a manifest is no template, whatever it looks like, and Helm looks into comments, too.
    let mut text = Text::new(&manifest.text.replace("{{", "{{ \"{{\" }}"));
    text.substitute(NAMESPACE, "{{ $.Release.Namespace }}");
    text.append("metadata.labels", LABELS)?;
    match (manifest.kind(), manifest.name()) {
        ("CustomResourceDefinition", _) => text.append("metadata.annotations", KEEP)?,
        ("ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding", DEFINITIONS) => {
            text.append("metadata", KEEP_WITH_DEFINITIONS)?;
        }
        ("Deployment", OPERATOR) => operator(&mut text)?,
        ("NetworkPolicy", OPERATOR) => ports(manifest, &mut text)?,
        ("ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration", _) => select(manifest, &mut text)?,
        ("ClusterRole" | "ClusterRoleBinding", OPERATOR) => return rights::in_each_or_all(manifest, text),
        _ => {}
    }
    Ok(guarded(condition(manifest), &text.finish()))
}

/// Returns when a manifest is a part of the release; none means always.
fn condition(manifest: &Manifest) -> Option<&'static str> {
    if manifest.is_for_webhooks() {
        return Some("include \"appdeploy.webhooks\" .");
    }
    match (manifest.kind(), manifest.name()) {
        ("CustomResourceDefinition", _) => Some(".Values.crds.install"),
        ("ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding", DEFINITIONS) => {
            Some("and .Values.policies.enabled .Values.crds.install")
        }
        ("ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding", _) => Some(".Values.policies.enabled"),
        ("Namespace", _) => Some(".Values.namespace.create"),
        ("NetworkPolicy", OPERATOR) => Some(".Values.networkPolicy.enabled"),
        ("NetworkPolicy", _) => Some("and .Values.networkPolicy.enabled .Values.networkPolicy.defaultDeny"),
        _ => None,
    }
}

fn guarded(condition: Option<&str>, text: &str) -> String {
    match condition {
        Some(condition) => format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"),
        None => text.to_owned(),
    }
}

fn operator(text: &mut Text) -> Result<()> {
    let pod = "spec.template.spec";
    let container = "spec.template.spec.containers.0";
    text.replace("spec.replicas", "replicas: {{ .Values.replicas }}")?;
    text.append("spec.template.metadata.annotations", POD_ANNOTATIONS)?;
    text.insert_after(&format!("{pod}.serviceAccountName"), PLACEMENT)?;
    text.replace(&format!("{container}.image"), IMAGE)?;
    text.replace(&format!("{container}.resources"), RESOURCES)
}

/// Lets the values name the ports of the API server, which the last rule allows.
fn ports(manifest: &Manifest, text: &mut Text) -> Result<()> {
    let rules = manifest.object["spec"]["egress"].as_array().map_or(0, Vec::len);
    let last = rules.checked_sub(1).context("nothing may go out")?;
    // The rule's only key stands behind its dash, and what is put there begins with the same.
    text.replace(
        &format!("spec.egress.{last}"),
        &format!("- {}", API_SERVER_PORTS.replace('\n', "\n  ")),
    )
}

/// Limits each webhook to the namespaces that the operator looks after.
fn select(manifest: &Manifest, text: &mut Text) -> Result<()> {
    let webhooks = manifest.object["webhooks"].as_array().map_or(0, Vec::len);
    for index in 0..webhooks {
        text.append(&format!("webhooks.{index}"), NAMESPACE_SELECTOR)?;
    }
    Ok(())
}
