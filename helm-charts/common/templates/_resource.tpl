{{- /* One resource of another kind of the operator's, whose spec is a value: a component with "apiVersion" and "kind". */}}
{{- define "common.resource" }}
{{- include "common.init" . }}
---
apiVersion: {{ .apiVersion }}
kind: {{ .kind }}
{{- include "common.metadata" . }}
spec: {{ toJson .root.Values.spec }}
{{- end }}
