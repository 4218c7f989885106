{{- define "mysqlcluster" }}
{{- $v := .Values }}
{{- $c := dict "root" . "name" .Release.Name "component" "mysql" "image" $v.image "user" 999 "readOnly" true "writable" (list "/tmp" "/var/run/mysqld")
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "1500Mi") "limits" (dict "cpu" "1000m" "memory" "2000Mi")) }}
{{- include "common.init" $c }}
{{- include "mysqlcluster.identity" $c }}
{{- $cnf := .Files.Get "files/my.cnf" | replace "@bufferPool@" (get $v.bufferPools $v.size | default "768M") }}
{{- $_ := set $c "files" (list (dict "mountPath" "/d3os-config/my.cnf" "dir" "/d3os-config" "file" "my.cnf" "text" $cnf
      "suffix" "-config" "volume" "d3os-config" "settings" "mysqld" "head" "")) }}
{{- include "common.files" $c }}
{{- $_ := set $c "configured" (dict "mounts" $c.mounts "volumes" $c.volumes) }}
{{- include "mysqlcluster.container" $c }}
{{- if and $v.restoreFrom (not $v.formed) }}{{ include "mysqlcluster.birth" $c }}{{ end }}
{{- if $v.storage.autoGrow }}{{ include "common.volumeReport" $c }}{{ end }}
{{- include "mysqlcluster.records" $c }}
{{- include "mysqlcluster.services" $c }}
{{- include "mysqlcluster.networkPolicy" $c }}
{{- include "mysqlcluster.set" $c }}
{{- include "mysqlcluster.disruptionBudget" $c }}
{{- if $v.backup }}{{ include "mysqlcluster.backup" $c }}{{ end }}
{{- end }}

{{- /* Adds the value ownerLabels to the selector of pods and to the labels of all objects, and removes the label part-of. */}}
{{- define "mysqlcluster.identity" }}
{{- $owner := .root.Values.ownerLabels }}
{{- range $field := list "selector" "identity" "labels" }}
{{- $labels := get $ $field | fromJson }}
{{- $_ := unset $labels "app.kubernetes.io/part-of" }}
{{- include "common.override" (dict "to" $labels "from" $owner) }}
{{- $_ := set $ $field (toJson $labels) }}
{{- end }}
{{- end }}

{{- /*
The agent is the parent process of mysqld, because the agent must be able to start and kill mysqld. A server starts
read-only. A ticket, an annotation on the pod, makes it writable. Files that the agent rereads are mounted as folders, so a
change of these files restarts nothing.
*/}}
{{- define "mysqlcluster.container" }}
{{- $v := .root.Values }}
{{- $env := dict }}
{{- range $name, $path := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" }}
{{- $_ := set $env $name (dict "fieldRef" (dict "fieldPath" $path)) }}
{{- end }}
{{- $_ := set . "env" $env }}
{{- $_ := set . "containerPorts" (list (dict "name" "mysql" "containerPort" 3306 "protocol" "TCP")
      (dict "name" "agent" "containerPort" 3307 "protocol" "TCP") (dict "name" "health" "containerPort" 3308 "protocol" "TCP")) }}
{{- $_ := set . "command" (list "/d3os-agent/agent" "member" "mysql" "--volume=/data" "--ticket=/d3os-ticket/ticket" "--secrets=/d3os-secrets"
      "--tls=/d3os-tls" "--config=/d3os-config/my.cnf" "--databases=/d3os-databases/databases" "--users=/d3os-databases/users" "--user-secrets=/d3os-users" "--listen=*" "--run=/var/run/mysqld" "--report=/dev/termination-log"
      (printf "--domain=%s-headless.%s.svc" .name .root.Release.Namespace)) }}
{{- /* The agent writes a termination message; if it has no time for that, the log has the cause. */}}
{{- $_ := set . "terminationMessagePolicy" "FallbackToLogsOnError" }}
{{- $mounts := list (dict "name" "data" "mountPath" "/data") }}
{{- range $name := list "agent" "ticket" "secrets" "tls" "databases" "users" }}
{{- $mounts = append $mounts (dict "name" (print "d3os-" $name) "mountPath" (print "/d3os-" $name) "readOnly" true) }}
{{- end }}
{{- $_ := set . "mounts" (concat .mounts $mounts) }}
{{- $ticket := dict "path" "ticket" "fieldRef" (dict "fieldPath" "metadata.annotations['d3os-product.com.d3os/ticket']") }}
{{- $secrets := list }}
{{- range $secret, $keys := dict ($v.credentialsSecret | default (print .name "-credentials")) (list "root-password" "username" "password")
      ($v.membersSecret | default (print .name "-members")) (list "agent-password" "replication-password") }}
{{- $items := list }}
{{- range $keys }}{{ $items = append $items (dict "key" . "path" .) }}{{ end }}
{{- $secrets = append $secrets (dict "secret" (dict "name" $secret "items" $items)) }}
{{- end }}
{{- $files := list }}
{{- range $file := list "ca.crt" "tls.crt" "tls.key" }}{{ $files = append $files (dict "key" $file "path" $file) }}{{ end }}
{{- $_ := set . "volumes" (concat .volumes (list (dict "name" "d3os-agent" "emptyDir" dict)
      (dict "name" "d3os-ticket" "downwardAPI" (dict "items" (list $ticket)))
      (dict "name" "d3os-secrets" "projected" (dict "defaultMode" 288 "sources" $secrets))
      (dict "name" "d3os-tls" "secret" (dict "secretName" ($v.tlsSecret | default (print .name "-member-tls")) "defaultMode" 288 "items" $files))
      (dict "name" "d3os-databases" "configMap" (dict "name" (print .name "-databases")))
      (dict "name" "d3os-users" "secret" (dict "secretName" ($v.usersSecret | default (print .name "-users")) "defaultMode" 288 "optional" true)))) }}
{{- /* A member without a server is alive, and may wait for a ticket without a limit. So the probe checks only the agent. */}}
{{- $live := dict "httpGet" (dict "path" "/livez" "port" 3308) }}
{{- $_ := set . "handlers" (dict "startup" $live "readiness" (dict "httpGet" (dict "path" "/readyz" "port" 3308)) "liveness" $live) }}
{{- $_ := set . "initContainers" (list (dict "name" "d3os-agent" "image" (required "agentImage must be given" $v.agentImage) "imagePullPolicy" "IfNotPresent"
      "command" (list "/agent" "install" "/d3os-agent/agent")
      "resources" (dict "requests" (dict "cpu" "50m" "memory" "16Mi") "limits" (dict "cpu" "500m" "memory" "64Mi"))
      "volumeMounts" (list (dict "name" "d3os-agent" "mountPath" "/d3os-agent")))) }}
{{- end }}

{{- /*
The operator writes its record into an annotation of the first ConfigMap. This ConfigMap stays as long as the data: without
the record, the operator cannot determine the latest copy. The agents read the second ConfigMap.
*/}}
{{- define "mysqlcluster.records" }}
---
apiVersion: v1
kind: ConfigMap
{{- include "common.metadata" (dict "root" .root "name" (print .name "-replication") "labels" .labels) }}
  annotations:
    helm.sh/resource-policy: keep
data:
  about: "The operator's record of this MySQL database, in an annotation: which member is the primary, in which epoch, and whose copies count. Without it no member becomes the primary."
---
apiVersion: v1
kind: ConfigMap
{{- include "common.metadata" (dict "root" .root "name" (print .name "-databases") "labels" .labels) }}
data:
  databases: {{ join "\n" .root.Values.databases | quote }}
  {{- $users := list }}
  {{- range .root.Values.users }}{{ $users = append $users (prepend (get . "databases" | default list) .name | join " ") }}{{ end }}
  users: {{ join "\n" $users | quote }}
{{- end }}
