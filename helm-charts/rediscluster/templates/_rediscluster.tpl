{{- define "rediscluster" }}
{{- $v := .Values }}
{{- $c := dict "root" . "name" .Release.Name "component" "redis" "image" $v.image "user" 999 "readOnly" true
      "writable" (list "/run/redis" "/tmp")
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "512Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) }}
{{- include "common.init" $c }}
{{- include "rediscluster.identity" $c }}
{{- $_ := set $c "secret" ($v.credentialsSecret | default (print $c.name "-credentials")) }}
{{- include "rediscluster.config" $c }}
{{- include "rediscluster.container" $c }}
{{- if and $v.restoreFrom (not $v.restored) }}{{ include "rediscluster.birth" $c }}{{ end }}
{{- if and $v.storage.autoGrow (not $v.storage.claim) }}{{ include "common.volumeReport" $c }}{{ end }}
{{- if $v.backup }}{{ include "rediscluster.backup" $c }}{{ end }}
{{- include "rediscluster.record" $c }}
{{- include "rediscluster.services" $c }}
{{- include "rediscluster.networkPolicy" $c }}
{{- range $i, $pods := $v.shards }}
{{- if $pods }}{{ include "rediscluster.shard" (dict "c" $c "shard" $i "pods" (int $pods)) }}{{ end }}
{{- end }}
{{- end }}

{{- /* Adds the value ownerLabels to the selector of pods and to the labels of all objects, and removes the label part-of. */}}
{{- define "rediscluster.identity" }}
{{- $owner := .root.Values.ownerLabels }}
{{- range $field := list "selector" "identity" "labels" }}
{{- $labels := get $ $field | fromJson }}
{{- $_ := unset $labels "app.kubernetes.io/part-of" }}
{{- include "common.override" (dict "to" $labels "from" $owner) }}
{{- $_ := set $ $field (toJson $labels) }}
{{- end }}
{{- end }}

{{- /* Renders one line of redis.conf. Only an empty value is quoted; any other value has the notation of redis.conf. */}}
{{- define "rediscluster.setting" -}}
{{- if regexMatch "[\r\n]" (print .name .value) }}{{ fail (printf "settings: %q must be one line" .name) }}{{ end -}}
{{ .name }} {{ empty .value | ternary "\"\"" .value }}
{{ end }}

{{- define "rediscluster.settings" -}}
{{- range $name, $value := . }}{{ include "rediscluster.setting" (dict "name" $name "value" $value) }}{{ end }}
{{- end }}

{{- define "rediscluster.config" }}
{{- $v := .root.Values }}
{{- $start := print (.root.Files.Get "files/redis.conf") (include "rediscluster.settings" $v.startSettings) }}
{{- $live := include "rediscluster.settings" $v.settings }}
{{- include "common.configMap" (dict "component" . "suffix" "-config" "quoted" true "data" (dict "redis.conf" $start "settings.conf" $live)) }}
{{- $scripts := dict }}
{{- range $name := list "alive.sh" "common.sh" "data.sh" "init.sh" "ready.sh" "start.sh" "started.sh" "stop.sh" }}
{{- $_ := set $scripts $name (print "files/" $name | $.root.Files.Get) }}
{{- end }}
{{- include "common.configMap" (dict "component" . "suffix" "-scripts" "data" $scripts) }}
{{- /*
Pods do not restart for a change of the settings that the operator sets on running servers, or of the scripts.
*/}}
{{- $_ := set . "podAnnotations" (dict "checksum/config" (sha256sum $start)) }}
{{- end }}

{{- define "rediscluster.container" }}
{{- $v := .root.Values }}
{{- $field := dict }}
{{- range $name, $path := dict "POD_IP" "status.podIP" "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" }}
{{- $_ := set $field $name (dict "fieldRef" (dict "fieldPath" $path)) }}
{{- end }}
{{- $_ := set $field "SERVICE" (print .name "-headless") }}
{{- $resources := include "common.resources" . | fromJson }}
{{- if dig "limits" "memory" "" $resources }}
{{- $_ := set $field "MEMORY_LIMIT" (dict "resourceFieldRef" (dict "containerName" "redis" "resource" "limits.memory")) }}
{{- end }}
{{- $_ := set . "containerPorts" (list (dict "name" "redis" "containerPort" 6379 "protocol" "TCP") (dict "name" "bus" "containerPort" 16379 "protocol" "TCP")) }}
{{- $_ := set . "command" (list "/bin/sh" "/scripts/start.sh") }}
{{- $handlers := dict }}
{{- range $probe, $script := dict "startup" "started" "readiness" "ready" "liveness" "alive" }}
{{- $_ := set $handlers $probe (dict "exec" (dict "command" (list "/bin/sh" (printf "/scripts/%s.sh" $script)))) }}
{{- end }}
{{- $_ := set . "handlers" $handlers }}
{{- /* Redis and the shell report a full volume only in their log. */}}
{{- $_ := set . "terminationMessagePolicy" "FallbackToLogsOnError" }}
{{- $_ := set . "lifecycle" (dict "preStop" (dict "exec" (dict "command" (list "/bin/sh" "/scripts/stop.sh")))) }}
{{- $data := dict "name" "data" "mountPath" (ternary "/shared" "/data" (not (empty $v.storage.claim))) }}
{{- if $v.storage.claim }}{{ $_ := set $field "SHARED_FOLDER" .name }}{{ end }}
{{- $_ := set . "data" $data }}
{{- $_ := set . "env" $field }}
{{- $_ := set . "mounts" (list $data
      (dict "name" "config" "mountPath" "/config" "readOnly" true)
      (dict "name" "credentials" "mountPath" "/credentials" "readOnly" true)
      (dict "name" "scripts" "mountPath" "/scripts" "readOnly" true)) }}
{{- $volumes := list
      (dict "name" "config" "configMap" (dict "name" (print .name "-config")))
      (dict "name" "credentials" "secret" (dict "secretName" .secret "items" (list (dict "key" "password" "path" "password"))))
      (dict "name" "scripts" "configMap" (dict "name" (print .name "-scripts"))) }}
{{- with $v.settingsConfigMap }}
{{- $_ := set $ "mounts" (append $.mounts (dict "name" "settings" "mountPath" "/settings" "readOnly" true)) }}
{{- $volumes = append $volumes (dict "name" "settings" "configMap" (dict "name" . "optional" true)) }}
{{- end }}
{{- with $v.storage.claim }}{{ $volumes = append $volumes (dict "name" "data" "persistentVolumeClaim" (dict "claimName" .)) }}{{ end }}
{{- $_ := set . "volumes" $volumes }}
{{- include "rediscluster.exporter" . }}
{{- end }}

{{- define "rediscluster.exporter" }}
{{- $v := .root.Values }}
{{- with $v.monitorImage }}
{{- /* An IPv6 address would need brackets. The name works for both address families. */}}
{{- $address := list
      (dict "name" "REDIS_ADDR" "value" "redis://localhost:6379")
      (dict "name" "REDIS_PASSWORD" "valueFrom" (dict "secretKeyRef" (dict "name" $.secret "key" "password"))) }}
{{- $_ := set $ "containers" (list (dict "name" "exporter" "image" . "imagePullPolicy" $v.imagePullPolicy "env" $address
      "ports" (list (dict "name" "metrics" "containerPort" 9121 "protocol" "TCP"))
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "32Mi") "limits" (dict "cpu" "100m" "memory" "128Mi"))
      "securityContext" (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL"))))) }}
{{- end }}
{{- end }}
