{{- /*
Renders the CronJobs for backups. A server in the pod of a backup copies a voter to a volume that lives as long as the pod.
Then the agent in the pod streams the files of the copy to the store. The agent queries the members' agents to find the
voter. It has a certificate that only permits reads, and the password of replication.
*/}}
{{- define "mysqlcluster.backup" }}
{{- $v := .root.Values }}
{{- $store := fromJson (include "common.backup.opens" (dict "component" . "destination" $v.backup.destination "prefix" "" "folder" (include "mysqlcluster.folder" .))) }}
{{- $command := concat (list "/d3os-agent/agent" "backup" "mysql" (print "--cluster=" .name) (printf "--domain=%s-headless.%s.svc" .name .root.Release.Namespace)
      "--tls=/d3os-backup/tls" "--scratch=/d3os-scratch" "--server-config=/d3os-config/my.cnf") $store.args (include "common.backup.recipients" . | fromJsonArray) }}
{{- $files := list }}
{{- range $file := list "ca.crt" "tls.crt" "tls.key" }}{{ $files = append $files (dict "key" $file "path" $file) }}{{ end }}
{{- $account := dict "secretName" ($v.membersSecret | default (print .name "-members")) "defaultMode" 288 "items" (list (dict "key" "replication-password" "path" "password")) }}
{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $v.storage.size)) }}
{{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- $volumes := concat .configured.volumes (list (dict "name" "tls" "secret" (dict "secretName" ($v.backupTLSSecret | default (print .name "-backup-tls")) "defaultMode" 288 "items" $files))
      (dict "name" "account" "secret" $account) (dict "name" "scratch" "ephemeral" (dict "volumeClaimTemplate" (dict "spec" $claim)))) }}
{{- $mounts := concat .configured.mounts (list (dict "name" "tls" "mountPath" "/d3os-backup/tls" "readOnly" true)
      (dict "name" "account" "mountPath" "/d3os-backup/account" "readOnly" true) (dict "name" "scratch" "mountPath" "/d3os-scratch")) }}
{{- include "common.backup.cronjob" (dict "component" . "store" $store "name" "backup" "label" .component "schedule" (get $v.backup "schedule") "command" $command
      "env" (list (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-backup/account/password")) "mounts" $mounts "volumes" $volumes "memory" "1Gi") }}
{{- include "common.backup.prune" (dict "component" . "store" $store) }}
{{- with get $v.backup "verify" }}{{ include "mysqlcluster.verify" (dict "component" $ "store" $store "verify" .) }}{{ end }}
{{- if include "mysqlcluster.pointInTime" $v }}{{ include "mysqlcluster.archive" (dict "component" . "store" $store "account" $account "files" $files) }}{{ end }}
{{- end }}

{{- /* Returns true if transactions are archived, also with the default settings; otherwise an empty text. */}}
{{- define "mysqlcluster.pointInTime" -}}
{{- if kindIs "map" (get (.backup | default dict) "pointInTime") }}true{{ end }}
{{- end }}

{{- /* Renders a CronJob that restores the newest backup and the later archive to a volume that lives as long as the pod. */}}
{{- define "mysqlcluster.verify" }}
{{- $c := .component }}
{{- $v := $c.root.Values }}
{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $v.storage.size)) }}
{{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- $volumes := append $c.configured.volumes (dict "name" "scratch" "ephemeral" (dict "volumeClaimTemplate" (dict "spec" $claim))) }}
{{- $mounts := append $c.configured.mounts (dict "name" "scratch" "mountPath" "/d3os-scratch") }}
{{- $env := list }}
{{- with get .verify "identitySecret" }}
{{- $env = list (dict "name" "AGENT_IDENTITIES_FILE" "value" "/d3os-backup/identity/identities") }}
{{- $mounts = append $mounts (dict "name" "identity" "mountPath" "/d3os-backup/identity" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" "identity" "secret" (dict "secretName" .name "defaultMode" 288)) }}
{{- end }}
{{- $command := concat (list "/d3os-agent/agent" "verify" "--backup=latest" "--scratch=/d3os-scratch" "--server-config=/d3os-config/my.cnf") .store.args }}
{{- if include "mysqlcluster.pointInTime" $v }}{{ $command = append $command "--to-time=latest" }}{{ end }}
{{- include "common.backup.cronjob" (dict "component" $c "store" .store "name" "verify" "label" (print $c.component "-verify") "schedule" .verify.schedule
      "command" $command "env" $env "mounts" $mounts "volumes" $volumes "memory" "1Gi") }}
{{- end }}

{{- /*
Renders the Deployment of the archive. Its pod reads the log of a voter continuously, and archives the transactions that no
failover can lose. The pod is stateless: its position is in the store. It is ready while the latest transactions can
be restored. Its termination message has the cause of its end.
*/}}
{{- define "mysqlcluster.archive" }}
{{- $c := .component }}
{{- $v := $c.root.Values }}
{{- $labels := fromJson $c.labels }}
{{- $_ := set $labels "d3os-product.com.d3os/backup" (print $c.component "-archive") }}
{{- $podLabels := fromJson $c.labels }}
{{- $_ := set $podLabels "app.kubernetes.io/name" (print $c.component ".archive") }}
{{- $_ := set $podLabels "d3os-product.com.d3os/backup" (print $c.component "-archive") }}
{{- $command := concat (list "/d3os-agent/agent" "archive" "mysql" (print "--cluster=" $c.name) (printf "--domain=%s-headless.%s.svc" $c.name $c.root.Release.Namespace)
      "--tls=/d3os-backup/tls" (print "--interval=" (get $v.backup.pointInTime "interval" | default "30s")) "--listen=[$(POD_IP)]:8080" "--give-up=2m")
      .store.args (include "common.backup.recipients" $c | fromJsonArray) }}
---
apiVersion: apps/v1
kind: Deployment
{{- include "common.metadata" (dict "root" $c.root "name" (print $c.name "-archive") "labels" (toJson $labels)) }}
spec:
  replicas: {{ min 1 (int $v.replicas) }}
  revisionHistoryLimit: 2
  {{- /* A store permits one archive at a time. */}}
  strategy: {"type": "Recreate"}
  selector:
    matchLabels: {{ set (fromJson $c.selector) "app.kubernetes.io/name" (print $c.component ".archive") | toJson }}
  template:
{{ include "common.backup.pod" (dict "component" $c "store" .store "container" "archive" "podLabels" (toJson $podLabels) "restartPolicy" "Always" "command" $command
      "env" (list (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-backup/account/password")
        (dict "name" "POD_IP" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP"))))
      "ports" (list (dict "name" "metrics" "containerPort" 8080))
      "readinessProbe" (dict "httpGet" (dict "path" "/ready" "port" 8080) "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 2)
      "mounts" (list (dict "name" "tls" "mountPath" "/d3os-backup/tls" "readOnly" true) (dict "name" "account" "mountPath" "/d3os-backup/account" "readOnly" true))
      "volumes" (list (dict "name" "tls" "secret" (dict "secretName" ($v.backupTLSSecret | default (print $c.name "-backup-tls")) "defaultMode" 288 "items" .files))
        (dict "name" "account" "secret" .account))) | indent 4 }}
{{- end }}

{{- /* Returns the default folder of backups on a claim or in a bucket. */}}
{{- define "mysqlcluster.folder" -}}
{{ printf "%s/%s/%s" .root.Release.Namespace .instance .component }}
{{- end }}

{{- /*
Adds a container that restores a new database from a backup. It writes to a folder next to the folder of mysqld, on the
empty volume of the first pod. When the operator permits that member to create the first data, the agent uses only this
folder. Once the operator's record shows that the database was formed, the container restores nothing. Pods then have
neither the container nor access to the store, so the store may be deleted.
*/}}
{{- define "mysqlcluster.birth" }}
{{- $v := .root.Values }}
{{- $store := fromJson (include "common.backup.reads" (dict "component" . "folder" (include "mysqlcluster.folder" .))) }}
{{- $command := concat (list "/d3os-agent/agent" "restore" "mysql" "--volume=/data" (printf "--pod=%s-0" .name) "--server-config=/d3os-config/my.cnf") $store.args }}
{{- with get $v.restoreFrom "toTime" }}{{ $command = append $command (print "--to-time=" .) }}{{ end }}
{{- $env := list }}
{{- range $name := list "POD_NAME" "POD_NAMESPACE" }}{{ $env = append $env (dict "name" $name "valueFrom" (get $.env $name)) }}{{ end }}
{{- $mounts := concat .configured.mounts $store.mounts (list (dict "name" "data" "mountPath" "/data") (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
      (dict "name" "tmp" "mountPath" "/tmp")) }}
{{- $container := dict "name" "d3os-restore" "image" .image "imagePullPolicy" $v.imagePullPolicy "command" $command "env" (concat $env $store.env)
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) "volumeMounts" $mounts }}
{{- $_ := set . "initContainers" (append .initContainers $container) }}
{{- $_ := set . "volumes" (concat .volumes $store.volumes) }}
{{- $_ := set . "command" (append .command "--restore") }}
{{- end }}
