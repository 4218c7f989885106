{{- /*
Renders a Deployment for a schedule with seconds. Kubernetes starts the pods of a CronJob once a minute at most. So the pods
of the Deployment run all the time, and the agent in each pod starts the command at each tick. The strategy is Recreate,
because an old and a new pod together would start each run twice. A pod is ready if its last run succeeded.
*/}}
{{- define "cronjob.seconds" }}
{{- $own := .Values.name | default .Release.Name }}
{{- $v := omit .Values "command" "args" "probes" "restartPolicy" }}
{{- $agent := "/d3os-agent/agent" }}
{{- $command := list $agent "cron" (print "--schedule=" $v.schedule) (print "--concurrency-policy=" $v.concurrencyPolicy) (printf "--grace-seconds=%d" (int64 $v.terminationGracePeriodSeconds)) }}
{{- with $v.scheduleTimeZone }}{{ $command = append $command (print "--time-zone=" .) }}{{ end }}
{{- range $field, $flag := dict "startingDeadlineSeconds" "starting" "activeDeadlineSeconds" "active" }}
{{- if not (kindIs "invalid" (get $v $field)) }}{{ $command = append $command (printf "--%s-deadline-seconds=%d" $flag (int64 (get $v $field))) }}{{ end }}
{{- end }}
{{- if not .Values.command }}{{ fail "command must be given with a schedule of seconds" }}{{ end }}
{{- $command = concat (append $command "--") .Values.command (.Values.args | default list) }}
{{- $_ := set $v "command" $command }}
{{- $_ := set $v "args" list }}
{{- $_ := set $v "probes" (dict "readiness" (dict "exec" (dict "command" (list $agent "cron" "--check")) "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 1)) }}
{{- $root := dict "Values" $v "Release" .Release "Files" .Files "Chart" .Chart "Template" .Template "Capabilities" .Capabilities }}
{{- $c := dict "root" $root "name" $own "component" $own "image" (required "image must be given" $v.image) "user" 10001 "env" dict
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "128Mi") "limits" (dict "memory" "1000Mi")) }}
{{- include "common.init" $c }}
{{- include "common.connections" $c }}
{{- include "common.ownFile" $c }}
{{- include "common.files" $c }}
{{- $_ := set $c.env "D3OS_POD_IP" (dict "fieldRef" (dict "fieldPath" "status.podIP")) }}
{{- $_ := set $c.env "D3OS_CRON_LISTEN" "[$(D3OS_POD_IP)]:9435" }}
{{- $_ := set $c "envFirst" (list "D3OS_POD_IP") }}
{{- $_ := set $c "containerPorts" (list (dict "name" "metrics" "containerPort" 9435)) }}
{{- $_ := set $c "terminationMessagePolicy" "FallbackToLogsOnError" }}
{{- $_ := set $c "agentImage" (required "agentImage must be given with a schedule of seconds" $v.agentImage) }}
{{- include "common.agent" $c }}
---
apiVersion: apps/v1
kind: Deployment
{{- include "common.metadata" $c }}
spec:
  replicas: {{ $v.suspend | ternary 0 (int $v.replicas) }}
  revisionHistoryLimit: 2
  progressDeadlineSeconds: 600
  strategy: {"type": "Recreate"}
  selector:
    matchLabels: {{ $c.selector }}
  template:
{{ include "common.pod" $c | indent 4 }}
{{- end }}
