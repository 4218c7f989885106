{{- define "common.workload" }}
{{- $v := .root.Values }}
---
apiVersion: apps/v1
kind: {{ $v.kind }}
{{- include "common.metadata" . }}
spec:
  {{- /* An autoscaler sets the number of pods. */}}
  {{- $scaled := and (get $v "autoscaling") (ne $v.kind "DaemonSet") }}
  {{- if and (ne $v.kind "DaemonSet") (not $scaled) (hasKey $v "replicas") }}
  {{- if not (kindIs "invalid" $v.replicas) }}
  replicas: {{ int $v.replicas }}
  {{- end }}
  {{- end }}
  revisionHistoryLimit: 5
  {{- $minReady := get $v "minReadySeconds" | int }}
  {{- if $minReady }}
  minReadySeconds: {{ $minReady }}
  {{- end }}
  {{- if eq $v.kind "Deployment" }}
  progressDeadlineSeconds: {{ get $v "progressDeadlineSeconds" | int | default (add 600 $minReady) }}
  strategy: {{ with get . "strategy" }}{{ toJson . }}{{ else }}{{ include "common.strategy" $v }}{{ end }}
  {{- else if eq $v.kind "DaemonSet" }}
  {{- with include "common.pace" $v }}
  updateStrategy: {"type": "RollingUpdate", "rollingUpdate": {{ . }}}
  {{- end }}
  {{- else }}
  serviceName: {{ get . "serviceName" | default .name | quote }}
  {{- /* Parallel, because a StatefulSet with OrderedReady never replaces a pod that does not become ready. */}}
  podManagementPolicy: Parallel
  {{- with get . "claimRetention" }}
  persistentVolumeClaimRetentionPolicy: {{ toJson . }}
  {{- end }}
  {{- with get . "claims" }}
  volumeClaimTemplates: {{ toJson . }}
  {{- end }}
  {{- end }}
  selector:
    matchLabels: {{ .selector }}
  template:
{{ include "common.pod" . | indent 4 }}
{{- end }}

{{- /* Returns the strategy of a Deployment from the values strategy and rollingUpdate. maxSurge and maxUnavailable must not both be 0. */}}
{{- define "common.strategy" -}}
{{- $strategy := dict "type" (get . "strategy" | default "RollingUpdate") }}
{{- if eq $strategy.type "RollingUpdate" }}
{{- $pace := dict "maxSurge" 1 "maxUnavailable" 0 }}
{{- range $field, $x := get . "rollingUpdate" | default dict }}
{{- if not (kindIs "invalid" $x) }}{{ $_ := set $pace $field $x }}{{ end }}
{{- end }}
{{- $none := list "0" "0%" }}
{{- if and (has (toString $pace.maxSurge) $none) (has (toString $pace.maxUnavailable) $none) }}{{ $_ := set $pace "maxUnavailable" 1 }}{{ end }}
{{- $_ := set $strategy "rollingUpdate" $pace }}
{{- end }}
{{- toJson $strategy }}
{{- end }}

{{- /* Returns rollingUpdate of a DaemonSet. Exactly one of maxSurge and maxUnavailable may be above 0. Empty without the value rollingUpdate. */}}
{{- define "common.pace" -}}
{{- $pace := dict }}
{{- range $field, $x := get . "rollingUpdate" | default dict }}
{{- if not (kindIs "invalid" $x) }}{{ $_ := set $pace $field $x }}{{ end }}
{{- end }}
{{- if and (hasKey $pace "maxSurge") (not (hasKey $pace "maxUnavailable")) }}
{{- $_ := set $pace "maxUnavailable" (has (toString $pace.maxSurge) (list "0" "0%") | ternary 1 0) }}
{{- end }}
{{- with $pace }}{{ toJson . }}{{ end }}
{{- end }}

{{- define "common.autoscaler" }}
{{- $v := .root.Values }}
{{- if ne $v.kind "DaemonSet" }}
{{- with get $v "autoscaling" }}
{{- $aims := dict "cpu" (get . "cpu") "memory" (get . "memory") }}
{{- if not (or $aims.cpu $aims.memory) }}{{ $_ := set $aims "cpu" 80 }}{{ end }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
{{- include "common.metadata" $ }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: {{ $v.kind }}
    name: {{ quote $.name }}
  minReplicas: {{ get . "min" | int | default 1 }}
  maxReplicas: {{ int .max }}
  metrics:
    {{- range $resource, $percent := $aims }}
    {{- with $percent }}
    - type: Resource
      resource:
        name: {{ $resource }}
        target:
          type: Utilization
          averageUtilization: {{ int . }}
    {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Renders a budget if there are several pods. A budget for a single pod would only block drains. */}}
{{- define "common.disruptionBudget" }}
{{- $v := .root.Values }}
{{- $budget := get $v "disruptionBudget" | default dict }}
{{- $pods := get $v "replicas" | int }}
{{- with get $v "autoscaling" }}{{ $pods = get . "min" | int }}{{ end }}
{{- if and (gt $pods 1) (ne $v.kind "DaemonSet") (not (get $budget "disabled")) }}
{{- $limits := dict }}
{{- range $field := list "minAvailable" "maxUnavailable" }}
{{- if hasKey $budget . }}{{ if not (kindIs "invalid" (get $budget .)) }}{{ $_ := set $limits . (get $budget .) }}{{ end }}{{ end }}
{{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{- include "common.metadata" . }}
spec:
  {{- range $field, $x := $limits | default (dict "maxUnavailable" 1) }}
  {{ $field }}: {{ toJson $x }}
  {{- end }}
  selector:
    matchLabels: {{ .selector }}
{{- end }}
{{- end }}
