{{- define "cronjob" }}
{{- $v := .Values }}
{{- $schedule := required "schedule must be given" $v.schedule }}
{{- $hasSixFields := regexMatch "^([^ ]+ +){5}[^ ]+$" $schedule }}
{{- if and $hasSixFields (not (regexMatch "^00? " $schedule)) }}
{{- include "cronjob.seconds" . }}
{{- else }}
{{- $own := $v.name | default .Release.Name }}
{{- $c := dict "root" . "name" $own "component" $own "image" (required "image must be given" $v.image) "user" 10001 "env" dict
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "128Mi") "limits" (dict "memory" "1000Mi")) }}
{{- include "common.init" $c }}
{{- include "common.connections" $c }}
{{- include "common.ownFile" $c }}
{{- include "common.files" $c }}
---
apiVersion: batch/v1
kind: CronJob
{{- include "common.metadata" $c }}
spec:
  {{- /* Kubernetes has no field for seconds: the first of six fields, which is 0, is omitted. */}}
  {{- if $hasSixFields }}
  {{- $schedule = regexReplaceAllLiteral "^0+ +" $schedule "" }}
  {{- end }}
  schedule: {{ quote $schedule }}
  {{- with $v.scheduleTimeZone }}
  timeZone: {{ quote . }}
  {{- end }}
  suspend: {{ $v.suspend }}
  concurrencyPolicy: {{ quote $v.concurrencyPolicy }}
  successfulJobsHistoryLimit: {{ int $v.successfulJobsHistoryLimit }}
  failedJobsHistoryLimit: {{ int $v.failedJobsHistoryLimit }}
  {{- include "cronjob.number" (dict "values" $v "field" "startingDeadlineSeconds") }}
  jobTemplate:
    metadata:
      labels: {{ $c.labels }}
    spec:
      {{- if gt (int $v.replicas) 1 }}
      parallelism: {{ int $v.replicas }}
      completions: {{ int $v.replicas }}
      {{- end }}
      backoffLimit: {{ int $v.backoffLimit }}
      {{- include "cronjob.number" (dict "values" $v "field" "activeDeadlineSeconds") | indent 4 }}
      template:
{{ include "common.pod" $c | indent 8 }}
{{- end }}
{{- end }}

{{- /* Renders a number, also 0, if the value is given. */}}
{{- define "cronjob.number" }}
{{- if hasKey .values .field }}
{{- $seconds := get .values .field }}
{{- if not (kindIs "invalid" $seconds) }}
  {{ .field }}: {{ int64 $seconds }}
{{- end }}
{{- end }}
{{- end }}
