{{- define "mysqlmembers" }}
{{- include "common.resource" (dict "root" . "name" .Release.Name "component" "mysql" "apiVersion" "d3os-product.com.d3os/v1alpha1" "kind" "MySQLCluster") }}
{{- end }}
