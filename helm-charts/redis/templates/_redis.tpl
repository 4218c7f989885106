{{- define "redis" }}
{{- $c := dict "root" . "name" .Release.Name "component" "redis" }}
{{- include "common.init" $c }}
---
apiVersion: redis.middleware.hc.cn/v1alpha1
kind: RedisCluster
{{- include "common.metadata" $c }}
spec: {{ toJson .Values.spec }}
{{- end }}
