{{- define "third-party" }}
{{- $v := .Values }}
{{- $url := required "url must be given" $v.url }}
{{- $own := $v.name | default .Release.Name }}
{{- $c := dict "root" . "name" $own "component" $own }}
{{- include "common.init" $c }}
{{- /* The first host of the url. An address has no alias, and a Service must not be the alias of itself. */}}
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
{{- $env := dict "CHECK_URL" $url "CHECK_PORT" ($v.port | default 3306 | int | toString) }}
{{- $mysql := get $v.credentials "mysql" | default dict }}
{{- with get $mysql "secretName" }}
{{- $_ := set $env "MYSQL_USERNAME" (dict "name" . "key" (get $mysql "usernameKey" | default "username")) }}
{{- $_ := set $env "MYSQL_PASSWORD" (dict "name" . "key" (get $mysql "passwordKey" | default "password")) }}
{{- end }}
{{- $check := $v.checkCommand | default (.Files.Get "files/check.sh") }}
{{- $probe := dict "exec" (dict "command" (list "/bin/sh" "-c" $check)) "periodSeconds" 10 "timeoutSeconds" 8 "failureThreshold" 3 }}
{{- /* A shell that waits ends at once on TERM; sleep as process 1 would ignore it. */}}
{{- $wait := "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done" }}
{{- include "common.workload" (dict "root" . "name" (print $c.name "-probe") "labels" $c.labels "selector" $c.selector
      "image" $v.image "user" 10001 "readOnly" true "writable" (list "/tmp")
      "env" $env "command" (list "/bin/sh" "-c" $wait) "probes" (dict "readiness" $probe)
      "resources" ($v.resources | default (dict "requests" (dict "cpu" "10m" "memory" "16Mi") "limits" (dict "cpu" "100m" "memory" "64Mi")))) }}
{{- end }}
