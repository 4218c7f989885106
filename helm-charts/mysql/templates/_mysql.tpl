{{- define "mysql" }}
{{- $v := .Values }}
{{- $store := $v.storage }}
{{- $c := dict "root" . "name" "mysql-dataservice" "component" "mysql" "port" $v.port "image" $v.image "user" 999
      "readOnly" true "writable" (list "/tmp" "/var/run/mysqld") "strategy" (dict "type" "Recreate")
      "resources" ($v.resources | default (dict "requests" (dict "cpu" "100m" "memory" "1500Mi") "limits" (dict "cpu" "1000m" "memory" "2000Mi"))) }}
{{- include "common.init" $c }}
{{- $secret := $v.credentialsSecret | default (print $c.name "-credentials") }}
{{- $_ := set $c "env" (dict
      "MYSQL_ROOT_PASSWORD" (dict "name" $secret "key" "root-password")
      "MYSQL_USER" (dict "name" $secret "key" "username")
      "MYSQL_PASSWORD" (dict "name" $secret "key" "password")
      "MYSQL_ROOT_HOST" "localhost") }}

{{- $cnf := .Files.Get "files/my.cnf" | replace "@port@" (int $v.port | toString) }}
{{- $schemas := .Files.Get "files/00-schemas.sh" | replace "@schemas@" (join " " $v.schemas) }}
{{- include "common.configMap" (dict "component" $c "suffix" "" "data" (dict "my.cnf" $cnf)) }}
{{- include "common.configMap" (dict "component" $c "suffix" "-init" "data" (dict "00-schemas.sh" $schemas)) }}
{{- $init := list (dict "configMap" (dict "name" (print $c.name "-init"))) }}
{{- range $v.initConfigMaps }}{{ $init = append $init (dict "configMap" (dict "name" .)) }}{{ end }}
{{- $volumes := list (dict "name" "mysql-ds-cnf" "configMap" (dict "name" $c.name)) (dict "name" "mysql-init" "projected" (dict "sources" $init)) }}
{{- /* A subPath, because mysqld refuses to initialise a file system that holds lost+found. */}}
{{- $_ := set $c "mounts" (list
      (dict "name" "mysql-ds-cnf" "mountPath" "/etc/mysql/conf.d" "readOnly" true)
      (dict "name" "mysql-init" "mountPath" "/docker-entrypoint-initdb.d" "readOnly" true)
      (dict "name" "data" "mountPath" "/var/lib/mysql" "subPath" "mysql")) }}
{{- /* The init scripts are left out of the checksum: a server that holds data never reads them again. */}}
{{- $annotations := dict "checksum/config" (sha256sum $cnf) }}

{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $store.size)) }}
{{- with $store.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- if eq $v.kind "StatefulSet" }}
{{- $_ := set $c "claims" (list (dict "apiVersion" "v1" "kind" "PersistentVolumeClaim" "metadata" (dict "name" "data" "labels" (fromJson $c.labels)) "spec" $claim)) }}
{{- $_ := set $c "claimRetention" (dict "whenDeleted" (ternary "Retain" "Delete" $store.retain) "whenScaled" "Retain") }}
{{- else if eq $v.kind "Deployment" }}
{{- /* The name that the first pod of a StatefulSet uses: changing the kind keeps the data. */}}
{{- $name := printf "data-%s-0" $c.name }}
{{- $volumes = append $volumes (dict "name" "data" "persistentVolumeClaim" (dict "claimName" $name)) }}
---
apiVersion: v1
kind: PersistentVolumeClaim
{{- include "common.metadata" (dict "root" . "name" $name "labels" $c.labels) }}
  {{- if $store.retain }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
spec: {{ toJson $claim }}
{{- else }}
{{- $volumes = append $volumes (dict "name" "data" "emptyDir" dict) }}
{{- $_ := set $annotations "d3os-product.com.d3os/data" "ephemeral" }}
{{- $_ := set $c "serviceAnnotations" (dict "d3os-product.com.d3os/data" "ephemeral") }}
{{- end }}
{{- $_ := set $c "volumes" $volumes }}
{{- $_ := set $c "podAnnotations" $annotations }}
{{- include "common.service" $c }}
{{- include "common.workload" $c }}
{{- end }}
