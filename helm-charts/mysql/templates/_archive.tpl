{{- /*
Renders the Deployment of the archive. Its pod reads the server's binary log continuously. The archive is a separate
workload, so a change of it does not restart the server, and the server does not have the store's credentials. The pod is
stateless: its position is in the store. It is ready while the latest transactions can be restored. Its termination message
has the cause of its end.
*/}}
{{- define "mysql.archive" }}
{{- $c := .component }}
{{- $v := $c.root.Values }}
{{- $interval := get .pointInTime "interval" | default "30s" }}
{{- $labels := fromJson $c.labels }}
{{- $_ := set $labels "d3os-product.com.d3os/backup" (print $c.component "-archive") }}
{{- $podLabels := fromJson $c.labels }}
{{- $_ := set $podLabels "app.kubernetes.io/name" (print $c.component ".archive") }}
{{- $_ := set $podLabels "d3os-product.com.d3os/backup" (print $c.component "-archive") }}
{{- $account := dict "secretName" ($v.usersSecret | default (print $c.name "-users")) "defaultMode" 288 "items" (list (dict "key" "d3os_archive" "path" "password")) }}
{{- $command := concat (list "/d3os-agent/agent" "archive" (include "mysql.backup.server" $c) "--user=d3os_archive" (print "--interval=" $interval)
      "--listen=[$(POD_IP)]:8080" "--give-up=2m") .store.args (include "common.backup.recipients" $c | fromJsonArray) }}
---
apiVersion: apps/v1
kind: Deployment
{{- include "common.metadata" (dict "root" $c.root "name" (print $c.name "-archive") "labels" (toJson $labels)) }}
spec:
  replicas: {{ min 1 (int $v.replicas) }}
  revisionHistoryLimit: 2
  {{- /* A server permits one archive at a time. */}}
  strategy: {"type": "Recreate"}
  selector:
    matchLabels: {{ dict "app.kubernetes.io/name" (print $c.component ".archive") "app.kubernetes.io/instance" $c.instance | toJson }}
  template:
{{ include "common.backup.pod" (dict "component" $c "store" .store "container" "archive" "podLabels" (toJson $podLabels) "restartPolicy" "Always" "command" $command
      "env" (list (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-backup/account/password")
        (dict "name" "POD_IP" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP"))))
      "ports" (list (dict "name" "metrics" "containerPort" 8080))
      "readinessProbe" (dict "httpGet" (dict "path" "/ready" "port" 8080) "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 2)
      "mounts" (list (dict "name" "account" "mountPath" "/d3os-backup/account" "readOnly" true))
      "volumes" (list (dict "name" "account" "secret" $account))) | indent 4 }}
{{- end }}
