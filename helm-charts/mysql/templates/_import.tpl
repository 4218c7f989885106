{{- /*
Adds a container that copies a new database from a running server. It runs before the guard, until the cut-over. It does
nothing on a volume that has data, had data, or should have data. When the value is removed, the container and its volumes
are removed without a restart. The container reports its progress at /state.
*/}}
{{- define "mysql.import" }}
{{- $v := .root.Values }}
{{- $from := $v.importFrom }}
{{- $like := fromJson (include "mysql.likewise" (dict "component" .)) }}
{{- $env := concat $like.env (fromJsonArray (include "mysql.restore.accounts" .)) (list
      (dict "name" "AGENT_USER_FILE" "value" "/d3os-import/account/username")
      (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-import/account/password")
      (dict "name" "POD_IP" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP")))) }}
{{- $host := $from.host }}{{ if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end }}
{{- $command := concat (list "/d3os-agent/agent" "import" "--birth" "--report=/dev/termination-log" "--volume=/d3os-volume" "--data=mysql" "--record=/d3os-record"
      (printf "--server=%s:%d" $host (get $from "port" | default 3306 | int)) "--cut-over=/d3os-import/ticket/ticket" "--listen=[$(POD_IP)]:8080") $like.args }}
{{- range get $from "databases" | default list }}{{ $command = append $command (print "--database=" .) }}{{ end }}
{{- $ticket := dict "path" "ticket" "fieldRef" (dict "fieldPath" "metadata.annotations['d3os-product.com.d3os/ticket']") }}
{{- $root := $v.credentialsSecret | default (print .name "-credentials") }}
{{- /* The Secrets are optional, so that a pod starts without them after the import. */}}
{{- $volumes := list
      (dict "name" "d3os-restore-tmp" "emptyDir" dict)
      (dict "name" "d3os-restore-root" "secret" (dict "secretName" $root "defaultMode" 288))
      (dict "name" "d3os-restore-ticket" "downwardAPI" (dict "items" (list $ticket)))
      (dict "name" "d3os-restore-account" "secret" (dict "secretName" $from.credentialsSecret.name "defaultMode" 288 "optional" true)) }}
{{- $mounts := concat (list
      (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
      (dict "name" "d3os-record" "mountPath" "/d3os-record" "readOnly" true)
      (dict "name" "d3os-restore-tmp" "mountPath" "/tmp")
      (dict "name" "data" "mountPath" "/d3os-volume")) $like.mounts (list
      (dict "name" "d3os-restore-root" "mountPath" "/d3os-backup/root" "readOnly" true)
      (dict "name" "d3os-restore-ticket" "mountPath" "/d3os-import/ticket" "readOnly" true)
      (dict "name" "d3os-restore-account" "mountPath" "/d3os-import/account" "readOnly" true)) }}
{{- with get $from "caSecret" }}
{{- $command = append $command "--server-ca=/d3os-import/ca/ca.crt" }}
{{- $mounts = append $mounts (dict "name" "d3os-restore-ca" "mountPath" "/d3os-import/ca" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" "d3os-restore-ca" "secret" (dict "secretName" .name "defaultMode" 288 "optional" true)) }}
{{- end }}
{{- $container := dict "name" "d3os-restore-import" "image" .image "imagePullPolicy" $v.imagePullPolicy "command" $command "env" $env
      "ports" (list (dict "name" "import" "containerPort" 8080 "protocol" "TCP"))
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) "volumeMounts" $mounts }}
{{- $_ := set . "initContainers" (list (first .initContainers) $container (last .initContainers)) }}
{{- $_ := set . "volumes" (concat .volumes $volumes) }}
{{- $_ := set . "openPorts" (list 8080) }}
{{- end }}
