//! Turns a manifest into a template: values replace some of its fields.

use anyhow::{Context as _, Result};

use super::rights;
use crate::source::Manifest;
use crate::text::Text;
use crate::{NAMESPACE, OPERATOR};

/// The policy that protects the CRDs, and its binding.
const DEFINITIONS: &str = "appdeploy-definitions";
/// The usual labels of Helm charts.
const LABELS: &str = "{{- include \"appdeploy.labels\" $ | nindent 4 }}";
/// Keeps Helm from deleting a CRD with its release, or permits it in the admission policy.
const KEEP: &str = "\
{{- if .Values.crds.keep }}
helm.sh/resource-policy: keep
{{- else }}
appdeploy.dev/allow-deletion: \"true\"
{{- end }}";
/// Keeps the policy that protects the CRDs as long as the CRDs.
const KEEP_WITH_DEFINITIONS: &str = "\
{{- if .Values.crds.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}";
/// Values for the placement of the operator's pods.
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

/// Limits webhooks to the managed namespaces, because the operator does not see the others.
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
    // A manifest can contain template syntax, which must be escaped, also in comments.
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

/// Returns the condition under which a manifest is part of the release; `None` means always.
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

/// Adds a value for the ports of the API server, which are in the last rule.
fn ports(manifest: &Manifest, text: &mut Text) -> Result<()> {
    let rules = manifest.object["spec"]["egress"].as_array().map_or(0, Vec::len);
    let last = rules.checked_sub(1).context("nothing may go out")?;
    // The rule's only key is after its dash, and the replacement begins with the same key.
    text.replace(
        &format!("spec.egress.{last}"),
        &format!("- {}", API_SERVER_PORTS.replace('\n', "\n  ")),
    )
}

/// Limits each webhook to the managed namespaces.
fn select(manifest: &Manifest, text: &mut Text) -> Result<()> {
    let webhooks = manifest.object["webhooks"].as_array().map_or(0, Vec::len);
    for index in 0..webhooks {
        text.append(&format!("webhooks.{index}"), NAMESPACE_SELECTOR)?;
    }
    Ok(())
}
