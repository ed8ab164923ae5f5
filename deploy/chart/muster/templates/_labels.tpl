{{/* Labels that select the operator's pods; they never change for a release. */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ .Values.name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The account of the operator, as the subject of a binding. */}}
{{- define "muster.subject" -}}
- kind: ServiceAccount
  name: {{ .Values.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* Not empty where metrics are served in the clear: without a ClusterRole nobody can be asked whose a token is. */}}
{{- define "muster.plainMetrics" -}}
{{- if or (default dict .Values.metrics).plain .Values.watchNamespace }}plain{{ end }}
{{- end }}

{{/* `helm upgrade --reuse-values` brings the values of an older chart, which may have had none for metrics. */}}
{{- define "muster.metricsCertificate" -}}
{{- (default dict .Values.metrics).certificateSecret | default "" }}
{{- end }}
