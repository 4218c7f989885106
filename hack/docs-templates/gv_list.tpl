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

Every field with what it means, what it is without being given, and an example. An optional field may be `null`, which
is the same as leaving it out. `required` and `none` in the column Default: the field must be given; without it, there
is nothing of the kind. [{{ index $of 2 }}](../{{ index $of 3 }}.md) explains the fields at length; [config/samples](../../config/samples)
shows them together.

{{ range . }}
{{- template "gvDetails" . }}
{{- end }}
{{- end -}}
