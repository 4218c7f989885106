{{- /* The operator's image: by digest, if one is given. */}}
{{- define "d3os-operator.image" -}}
{{- with .Values.manager.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end -}}
{{- end -}}
{{- end -}}
