{{/* The environment of the agent. Whatever is set is passed, false and 0 too. */}}
{{- define "karp.settings" -}}
{{- $s := .Values.settings -}}
- {name: CLUSTER_NAME, value: {{ tpl (required "settings.clusterName is required: the name of the EKS cluster" $s.clusterName) . | quote }}}
{{- range $env, $key := dict
  "CLUSTER_ENDPOINT" "clusterEndpoint"
  "CLUSTER_CA_BUNDLE" "clusterCABundle"
  "BATCH_MAX_DURATION" "batchMaxDuration"
  "BATCH_IDLE_DURATION" "batchIdleDuration"
  "ISOLATED_VPC" "isolatedVPC"
  "EKS_CONTROL_PLANE" "eksControlPlane"
  "VM_MEMORY_OVERHEAD_PERCENT" "vmMemoryOverheadPercent"
  "INTERRUPTION_QUEUE" "interruptionQueue"
  "REBALANCE_RECOMMENDATIONS" "rebalanceRecommendations"
  "ENABLE_ZONAL_SHIFT" "enableZonalShift"
  "RESERVED_ENIS" "reservedENIs"
  "IGNORE_DRA_REQUESTS" "ignoreDRARequests"
  "DISABLE_CLUSTER_STATE_OBSERVABILITY" "disableClusterStateObservability"
  "DISABLE_DRY_RUN" "disableDryRun"
  "AMI_REFRESH_INTERVAL" "amiRefreshInterval"
  "SUBNET_REFRESH_INTERVAL" "subnetRefreshInterval"
  "PLACEMENT_HINTS" "placementHints"
  "SCHEDULER_CONFIG" "schedulerConfig"
  "CONSOLIDATION_MINIMUM_SAVING" "consolidationMinimumSaving"
}}
{{- $value := get $s $key }}
{{- if and (eq $key "placementHints") (kindIs "bool" $value) }}{{- $value = ternary "on" "off" $value }}{{- end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- {name: {{ $env }}, value: {{ tpl (toString $value) $ | quote }}}
{{- end }}
{{- end }}
- {name: PREFERENCE_POLICY, value: {{ $s.preferencePolicy | quote }}}
- {name: MIN_VALUES_POLICY, value: {{ $s.minValuesPolicy | quote }}}
- name: FEATURE_GATES
  value: {{ include "karp.gates" . | quote }}
{{- end -}}

{{/* Feature gates have the names of the values with a capital: reservedCapacity is ReservedCapacity. */}}
{{- define "karp.gates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.settings.featureGates -}}
{{- $gates = append $gates (printf "%s%s=%t" (upper (substr 0 1 $name)) (substr 1 -1 $name) $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}
