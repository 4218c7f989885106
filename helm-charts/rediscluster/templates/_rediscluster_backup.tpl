{{- /*
Renders the CronJobs for backups. The agent copies each shard from a replica. It connects to any node through the Service,
and gets the addresses of the other nodes from that node.
*/}}
{{- define "rediscluster.backup" }}
{{- $v := .root.Values }}
{{- $store := fromJson (include "common.backup.opens" (dict "component" . "destination" $v.backup.destination "prefix" "" "folder" (include "rediscluster.folder" .))) }}
{{- $command := concat (list "/d3os-agent/agent" "backup" "redis" (printf "--server=%s.%s.svc:6379" .name .root.Release.Namespace))
      $store.args (include "common.backup.recipients" . | fromJsonArray) }}
{{- include "common.backup.cronjob" (dict "component" . "store" $store "name" "backup" "label" .component "schedule" (get $v.backup "schedule")
      "command" $command "env" (list (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-backup/account/password"))
      "mounts" (list (dict "name" "account" "mountPath" "/d3os-backup/account" "readOnly" true))
      "volumes" (list (dict "name" "account" "secret" (dict "secretName" .secret "defaultMode" 288 "items" (list (dict "key" "password" "path" "password")))))) }}
{{- include "common.backup.prune" (dict "component" . "store" $store) }}
{{- end }}

{{- /* Returns the default folder of backups on a claim or in a bucket. */}}
{{- define "rediscluster.folder" -}}
{{ printf "%s/%s/redis" .root.Release.Namespace .instance }}
{{- end }}

{{- /*
Adds a container that restores a new cluster from a backup: it writes the data and the slots of a shard to the empty volume
of the shard's first pod. Once the operator's record shows that the cluster has begun, the container restores nothing. Once
the cluster is formed, pods have neither the container nor access to the store, so the store may be deleted. The container
reads the number of shards from the record, so a change of the number replaces no pod.
*/}}
{{- define "rediscluster.birth" }}
{{- $c := . }}
{{- $v := .root.Values }}
{{- $store := fromJson (include "common.backup.reads" (dict "component" . "folder" (include "rediscluster.folder" .))) }}
{{- $command := concat (list "/d3os-agent/agent" "restore" "redis" "--birth" (print "--volume=" .data.mountPath) "--record=/d3os-record") $store.args }}
{{- if $v.storage.claim }}{{ $command = append $command (printf "--data=%s/$(POD_NAME)" .name) }}{{ end }}
{{- $env := append $store.env (dict "name" "POD_NAME" "valueFrom" (get $c.env "POD_NAME")) }}
{{- $mounts := concat $store.mounts (list .data (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
      (dict "name" "d3os-record" "mountPath" "/d3os-record" "readOnly" true)) }}
{{- $_ := set . "initContainers" (list
      (dict "name" "d3os-agent" "image" ($v.restoreAgentImage | default (required "agentImage must be given" $v.agentImage)) "imagePullPolicy" "IfNotPresent"
        "command" (list "/agent" "install" "/d3os-agent/agent")
        "resources" (dict "requests" (dict "cpu" "50m" "memory" "32Mi") "limits" (dict "cpu" "500m" "memory" "256Mi"))
        "volumeMounts" (list (dict "name" "d3os-agent" "mountPath" "/d3os-agent")))
      (dict "name" "d3os-restore" "image" .image "imagePullPolicy" $v.imagePullPolicy "command" $command "env" $env
        "resources" (dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) "volumeMounts" $mounts)) }}
{{- $_ := set . "volumes" (concat .volumes $store.volumes (list (dict "name" "d3os-agent" "emptyDir" dict)
      (dict "name" "d3os-record" "configMap" (dict "name" (print .name "-topology"))))) }}
{{- end }}
