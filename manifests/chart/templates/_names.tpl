{{/* The name of the agent's objects. */}}
{{- define "karp.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- default "karp-agent" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "karp.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "karp.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What selects the agent's pods; never changes after installation. */}}
{{- define "karp.selector" -}}
app.kubernetes.io/name: {{ include "karp.fullname" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "karp.labels" -}}
{{ include "karp.selector" . }}
app.kubernetes.io/part-of: karp
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of an object, below metadata. */}}
{{- define "karp.meta" -}}
labels:
  {{- include "karp.labels" . | nindent 2 }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "karp.image" -}}
{{- with .Values.controller.image -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* A binding of a ClusterRole of the agent to its account: (list $ name). */}}
{{- define "karp.bind" -}}
{{- $ := index . 0 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ index . 1 }}
  {{- include "karp.meta" $ | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ index . 1 }}
subjects:
  - kind: ServiceAccount
    name: {{ include "karp.serviceAccount" $ }}
    namespace: {{ $.Release.Namespace }}
{{- end -}}
