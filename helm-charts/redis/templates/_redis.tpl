{{- define "redis" }}
{{- include "common.resource" (dict "root" . "name" .Release.Name "component" "redis" "apiVersion" "redis.middleware.hc.cn/v1alpha1" "kind" "RedisCluster") }}
{{- end }}
