{{/* The usual labels of Helm charts, in addition to those of every installation. */}}
{{- define "appdeploy.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The digest is that of this version's image, and so gives way to another tag or repository. */}}
{{- define "appdeploy.image" -}}
{{- with .Values.image -}}
{{- $released := and (not .tag) (eq .repository "@repository@") | ternary "@digest@" "" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default (printf "v%s" $.Chart.AppVersion) .tag }}{{ with $released }}@{{ . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether API servers ask the operator: "true", or nothing. It takes a right in the whole cluster, and who names namespaces wants none. */}}
{{- define "appdeploy.webhooks" -}}
{{- if kindIs "bool" .Values.webhooks.enabled }}
{{- if .Values.webhooks.enabled }}true{{ end }}
{{- else if not .Values.operator.watchNamespaces }}true{{ end }}
{{- end }}

{{/* The operator's flags, as a list of YAML; nothing if there are none. */}}
{{- define "appdeploy.args" -}}
{{- $args := list }}
{{- with .Values.operator }}
{{- with .watchNamespaces }}{{ $args = append $args (printf "--watch-namespace=%s" (. | uniq | sortAlpha | join ",")) }}{{ end }}
{{- if not (include "appdeploy.webhooks" $) }}{{ $args = append $args "--webhooks=false" }}{{ end }}
{{- with .allowedHostSuffixes }}{{ $args = append $args (printf "--allowed-host-suffix=%s" (join "," .)) }}{{ end }}
{{- if .allowUncheckedFields }}{{ $args = append $args "--allow-unchecked-fields=true" }}{{ end }}
{{- if .watchConfigMaps }}{{ $args = append $args "--watch-configmaps=true" }}{{ end }}
{{- with .concurrency }}{{ $args = append $args (printf "--concurrency=%d" (int .)) }}{{ end }}
{{- with .resyncPeriod }}{{ $args = append $args (printf "--resync-period=%s" .) }}{{ end }}
{{- with .ingressAddress }}{{ $args = append $args (printf "--ingress-address=%s" .) }}{{ end }}
{{- with .logFormat }}{{ $args = append $args (printf "--log-format=%s" .) }}{{ end }}
{{- with .logLevel }}{{ $args = append $args (printf "--log-level=%s" .) }}{{ end }}
{{- $args = concat $args .extraArgs }}
{{- end }}
{{- with $args }}{{ toYaml . }}{{ end }}
{{- end }}
