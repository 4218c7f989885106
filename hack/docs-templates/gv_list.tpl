{{- define "gvList" -}}
{{- /* A kind, the title of its page, and the page that explains its fields. */ -}}
{{- $of := list "" "" "Describing services" "services" -}}
{{- $kinds := (first .).Kinds -}}
{{- range list
      (list "RedisCluster" "RedisCluster: " "Redis" "redis")
      (list "EtcdCluster" "EtcdCluster: " "etcd" "etcd")
      (list "MySQLCluster" "MySQLCluster: " "Replicated MySQL" "mysqlcluster")
      (list "DataBackup" "Backups: " "Backups" "backup")
      (list "AppService" "AppService: " "Users of other operators" "compat")
      (list "ModelBox" "ModelBox: " "Users of other operators" "compat")
      (list "CronTab" "CronTab: " "Users of other operators" "compat") -}}
{{- if has (first .) $kinds -}}{{- $of = . -}}{{- end -}}
{{- end -}}
# {{ index $of 1 }}API Reference

This page lists every field with its meaning, its default and an example. An optional field may be `null`: this has the same
effect as an absent field. In the column Default, `required` means that you must set the field, and `none` means that the
field has no default. [{{ index $of 2 }}](../{{ index $of 3 }}.md) explains the fields at length;
[config/samples](../../config/samples) shows them together.

{{ range . }}
{{- template "gvDetails" . }}
{{- end }}
{{- end -}}
