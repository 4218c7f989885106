{{- define "gvDetails" -}}
{{- $gv := . -}}
{{- /* The types that embed these types list their fields. */ -}}
{{- $inlined := list "ContainerFields" "PodFields" "SchedulingFields" "ServiceFields" "Workload" "ObjectName" -}}
## {{ $gv.GroupVersionString }}
{{ range $gv.SortedTypes }}
{{- if not (has .Name $inlined) }}
{{ template "type" (dict "type" . "inlined" $inlined "own" $gv.Types) }}
{{- end }}
{{- end }}
{{- end -}}
