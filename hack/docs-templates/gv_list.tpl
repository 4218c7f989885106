{{- define "gvList" -}}
# API Reference

Every field with what it means, what it is without being given, and an example. An optional field may be `null`, which
is the same as leaving it out. `required` and `none` in the column Default: the field must be given; without it, there
is nothing of the kind. [Describing services](../services.md) explains the fields at length; [config/samples](../../config/samples)
shows them together.

{{ range . }}
{{- template "gvDetails" . }}
{{- end }}
{{- end -}}
