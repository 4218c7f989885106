{{- define "eureka" }}
{{- $v := .Values }}
{{- $c := dict "root" . "name" "eureka" "component" "eureka" "port" $v.port "image" $v.image "user" 10001
      "resources" ($v.resources | default (dict "requests" (dict "cpu" "10m" "memory" "1000Mi") "limits" (dict "cpu" "200m" "memory" "1000Mi"))) }}
{{- include "common.init" $c }}
{{- include "common.service" $c }}
{{- include "common.workload" $c }}
{{- end }}
