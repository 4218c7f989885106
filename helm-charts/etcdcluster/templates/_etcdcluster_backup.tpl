{{- /*
Renders the CronJobs for backups. One member streams a snapshot. The agent connects to the members through their Service,
like any client.
*/}}
{{- define "etcdcluster.backup" }}
{{- $v := .root.Values }}
{{- $store := fromJson (include "common.backup.opens" (dict "component" . "destination" $v.backup.destination "prefix" "" "folder" (include "etcdcluster.folder" .))) }}
{{- $scheme := empty $v.tls.serverSecret | ternary "http" "https" }}
{{- $command := concat (list "/d3os-agent/agent" "backup" "etcd" (printf "--endpoint=%s://%s.%s.svc:2379" $scheme .name .root.Release.Namespace))
      $store.args (include "common.backup.recipients" . | fromJsonArray) }}
{{- $cron := dict "component" . "store" $store "name" "backup" "label" .component "schedule" (get $v.backup "schedule") }}
{{- with $v.tls.clientSecret }}
{{- $command = append $command "--tls=/d3os-backup/tls" }}
{{- $_ := set $cron "mounts" (list (dict "name" "tls" "mountPath" "/d3os-backup/tls" "readOnly" true)) }}
{{- $_ := set $cron "volumes" (list (dict "name" "tls" "secret" (dict "secretName" . "defaultMode" 288))) }}
{{- end }}
{{- $_ := set $cron "command" $command }}
{{- include "common.backup.cronjob" $cron }}
{{- include "common.backup.prune" (dict "component" . "store" $store) }}
{{- end }}

{{- /* Returns the default folder of backups on a claim or in a bucket. */}}
{{- define "etcdcluster.folder" -}}
{{ printf "%s/%s/etcd" .root.Release.Namespace .instance }}
{{- end }}

{{- /*
Adds a container that restores a new cluster from a backup. It writes to a folder next to the folder of etcd, on the empty
volume of the first pod. When the operator permits that pod to form the cluster, the agent uses this folder. Once the
operator's record shows that the cluster was formed, the container restores nothing. Pods then have neither the container
nor access to the store, so the store may be deleted.
*/}}
{{- define "etcdcluster.birth" }}
{{- $c := . }}
{{- $v := .root.Values }}
{{- $store := fromJson (include "common.backup.reads" (dict "component" . "folder" (include "etcdcluster.folder" .))) }}
{{- $command := concat (list "/d3os-agent/agent" "restore" "etcd" "--birth" "--volume=/data" "--record=/d3os-record" "--notes=/d3os-notes"
      (printf "--pod=%s-0" .name) (printf "--domain=%s-headless.%s.svc" .name .root.Release.Namespace)) $store.args }}
{{- if $v.tls.peerSecret }}{{ $command = append $command "--peer-tls" }}{{ end }}
{{- $env := list }}
{{- range $name := list "POD_IP" "POD_NAME" "POD_NAMESPACE" "POD_UID" }}{{ $env = append $env (dict "name" $name "valueFrom" (get $c.env $name)) }}{{ end }}
{{- $mounts := concat $store.mounts (list (dict "name" "data" "mountPath" "/data") (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
      (dict "name" "d3os-notes" "mountPath" "/d3os-notes") (dict "name" "d3os-record" "mountPath" "/d3os-record" "readOnly" true)) }}
{{- $container := dict "name" "d3os-restore" "image" .image "imagePullPolicy" $v.imagePullPolicy "command" $command "env" (concat $env $store.env)
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) "volumeMounts" $mounts }}
{{- $_ := set . "initContainers" (append .initContainers $container) }}
{{- $_ := set . "volumes" (concat .volumes $store.volumes) }}
{{- end }}
