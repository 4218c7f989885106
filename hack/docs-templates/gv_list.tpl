{{- define "gvList" -}}
{{- $redis := eq (first .).Group "redis.middleware.hc.cn" -}}
{{- $backup := eq (first .).Version "v1alpha1" | and (eq (first .).Group "d3os-product.com.d3os") -}}
# {{ if $redis }}RedisCluster: {{ else if $backup }}Backups: {{ end }}API Reference

Every field with what it means, what it is without being given, and an example. An optional field may be `null`, which
is the same as leaving it out. `required` and `none` in the column Default: the field must be given; without it, there
is nothing of the kind. {{ if $redis }}[Redis](../redis.md){{ else if $backup }}[Backups](../backup.md){{ else }}[Describing services](../services.md){{ end }} explains the fields at length; [config/samples](../../config/samples)
shows them together.

{{ range . }}
{{- template "gvDetails" . }}
{{- end }}
{{- end -}}
