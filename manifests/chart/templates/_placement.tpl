{{/* A selector of the agent's own pods, where a constraint has none. */}}
{{- define "karp.own" -}}
labelSelector:
  matchLabels:
    {{- include "karp.selector" . | nindent 4 }}
{{- end -}}

{{- define "karp.affinity" -}}
{{- $own := include "karp.own" . | fromYaml -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- with $affinity.podAntiAffinity -}}
{{- range .requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $_ := merge . (deepCopy $own) -}}
{{- end -}}
{{- range .preferredDuringSchedulingIgnoredDuringExecution -}}
{{- $_ := merge .podAffinityTerm (deepCopy $own) -}}
{{- end -}}
{{- end -}}
{{ toYaml $affinity }}
{{- end -}}
