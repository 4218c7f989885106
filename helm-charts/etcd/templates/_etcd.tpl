{{- define "etcd" }}
{{- include "common.resource" (dict "root" . "name" .Release.Name "component" "etcd" "apiVersion" "etcd.database.coreos.com/v1alpha1" "kind" "EtcdCluster") }}
{{- end }}
