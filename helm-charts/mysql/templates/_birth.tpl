{{- /*
Adds a container that restores a new database from a backup. It runs before the guard, and does nothing on a volume that has data,
had data, or should have data. When the value is removed, the container and its volumes are removed without a restart.
*/}}
{{- define "mysql.birth" }}
{{- $v := .root.Values }}
{{- $from := $v.restoreFrom }}
{{- $store := fromJson (include "common.backup.reads" (dict "component" .)) }}
{{- $like := fromJson (include "mysql.likewise" (dict "component" .)) }}
{{- $env := concat $store.env $like.env (fromJsonArray (include "mysql.restore.accounts" .)) }}
{{- $mounts := append (concat $store.mounts $like.mounts) (dict "name" "d3os-restore-root" "mountPath" "/d3os-backup/root" "readOnly" true) }}
{{- $volumes := append $store.volumes (dict "name" "d3os-restore-root" "secret" (dict "secretName" ($v.credentialsSecret | default (print .name "-credentials")) "defaultMode" 288)) }}
{{- $command := concat (list "/d3os-agent/agent" "restore" "--birth" "--volume=/d3os-volume" "--data=mysql" "--record=/d3os-record") $store.args $like.args }}
{{- with get $from "toTime" }}{{ $command = append $command (print "--to-time=" .) }}{{ end }}
{{- $container := dict "name" "d3os-restore" "image" .image "imagePullPolicy" $v.imagePullPolicy "command" $command "env" $env
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi"))
      "volumeMounts" (concat (list
        (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
        (dict "name" "d3os-record" "mountPath" "/d3os-record" "readOnly" true)
        (dict "name" "d3os-restore-tmp" "mountPath" "/tmp")
        (dict "name" "data" "mountPath" "/d3os-volume")) $mounts) }}
{{- $_ := set . "initContainers" (list (first .initContainers) $container (last .initContainers)) }}
{{- $_ := set . "volumes" (concat .volumes (list (dict "name" "d3os-restore-tmp" "emptyDir" dict)) $volumes) }}
{{- end }}
