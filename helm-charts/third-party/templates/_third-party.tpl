{{- define "third-party" }}
{{- $v := .Values }}
{{- $url := required "url must be given" $v.url }}
{{- $own := $v.name | default .Release.Name }}
{{- $c := dict "root" . "name" $own "component" $own "image" $v.image "user" 10001 "readOnly" true "writable" (list "/tmp")
      "env" (dict "CHECK_URL" $url "CHECK_PORT" ($v.port | default 3306 | int | toString))
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "16Mi") "limits" (dict "cpu" "100m" "memory" "64Mi")) }}
{{- include "common.init" $c }}
{{- /* The alias is for the first host of the url. An IP address gets no alias, and a Service must not be the alias of itself. */}}
{{- $host := regexReplaceAll "^[a-z]+://(\\[[^\\]]*\\]|[^\\[:/?#,]+).*$" $url "${1}" | lower }}
{{- $self := print $c.name "." .Release.Namespace }}
{{- if not (or (not $host) (regexMatch "^[0-9.]+$|^\\[" $host) (has $host (list $c.name $self)) (hasPrefix (print $self ".svc") $host)) }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" $c }}
spec:
  type: ExternalName
  externalName: {{ quote $host }}
{{- end }}
{{- include "common.account" $c }}
{{- include "common.redis" $c }}
{{- include "common.etcd" $c }}
{{- include "common.mongodb" $c }}
{{- include "common.ownFile" $c }}
{{- include "common.files" $c }}
{{- $check := $v.checkCommand | default (.Files.Get (regexMatch "^https?://" $url | ternary "files/check-http.sh" "files/check.sh")) }}
{{- $command := list "/bin/sh" "-c" $check }}
{{- /* The probe logs in to MySQL: a server counts each connection without a login as an error, and blocks the client after max_connect_errors. */}}
{{- if and $v.agentImage (not $v.checkCommand) (hasPrefix "mysql://" $url) }}
{{- $command = list "/d3os-agent/agent" "ping" }}
{{- $_ := set $c "agentImage" $v.agentImage }}
{{- include "common.agent" $c }}
{{- end }}
{{- $_ := set $c "handlers" (dict "readiness" (dict "exec" (dict "command" $command))) }}
{{- /*
While the shell waits for sleep in the background, TERM ends it at once. sleep as process 1 would ignore TERM.
*/}}
{{- $wait := "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done" }}
{{- $_ := set $c "command" (list "/bin/sh" "-c" $wait) }}
{{- $_ := set $c "name" (print $c.name "-probe") }}
{{- include "common.workload" $c }}
{{- end }}
