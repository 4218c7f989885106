{{- define "eureka" }}
{{- $v := .Values }}
{{- $c := dict "root" . "name" "eureka" "component" "eureka" "port" $v.port "image" $v.image "user" 10001 "env" dict
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "1000Mi") "limits" (dict "cpu" "200m" "memory" "1000Mi")) }}
{{- include "common.init" $c }}
{{- include "common.ownFile" $c }}
{{- include "common.files" $c }}
{{- include "common.service" $c }}
{{- if eq $v.kind "StatefulSet" }}{{ include "eureka.peers" $c }}{{ end }}
{{- include "common.workload" $c }}
{{- include "common.disruptionBudget" $c }}
{{- include "common.networkPolicy" $c }}
{{- end }}

{{- /*
Each pod of a StatefulSet has a fixed name. With these names, several pods replicate the registry to each other.
*/}}
{{- define "eureka.peers" }}
{{- $peers := print .name "-peers" }}
{{- $domain := printf "%s.%s.svc" $peers .root.Release.Namespace }}
{{- $_ := set . "serviceName" $peers }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" (dict "root" .root "name" $peers "labels" .labels) }}
spec:
  type: ClusterIP
  clusterIP: None
  {{- /* A pod becomes ready only after it has found the others. */}}
  publishNotReadyAddresses: true
  selector: {{ .selector }}
  ports:
    - {{ omit (first .servicePorts) "nodePort" | toJson }}
{{- $replicas := int .root.Values.replicas }}
{{- if gt $replicas 1 }}
{{- $urls := list }}
{{- range $i := until $replicas }}
{{- $urls = append $urls (printf "http://%s-%d.%s:%d/eureka" $.name $i $domain $.port) }}
{{- end }}
{{- $_ := set . "peers" true }}
{{- $_ := set .env "POD_NAME" (dict "fieldRef" (dict "fieldPath" "metadata.name")) }}
{{- $_ := set . "envFirst" (list "POD_NAME") }}
{{- $_ := set .env "EUREKA_INSTANCE_HOSTNAME" (printf "$(POD_NAME).%s" $domain) }}
{{- $_ := set .env "EUREKA_CLIENT_REGISTERWITHEUREKA" "true" }}
{{- $_ := set .env "EUREKA_CLIENT_FETCHREGISTRY" "true" }}
{{- $_ := set .env "EUREKA_CLIENT_SERVICEURL_DEFAULTZONE" (join "," $urls) }}
{{- end }}
{{- end }}
