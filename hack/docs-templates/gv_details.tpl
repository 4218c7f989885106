{{- define "gvDetails" -}}
{{- $gv := . -}}
{{- /* The fields of these are listed by the types that take them in. */ -}}
{{- $inlined := list "ContainerFields" "PodFields" "SchedulingFields" "ServiceFields" "Workload" "ObjectName" -}}
## {{ $gv.GroupVersionString }}
{{ range $gv.SortedTypes }}
{{- if not (has .Name $inlined) }}
{{ template "type" (dict "type" . "inlined" $inlined "own" $gv.Types) }}
{{- end }}
{{- end }}
{{- end -}}
