{{- /*
Renders a resource of another kind of this operator. Its spec is the value spec. The component has its apiVersion and kind.
*/}}
{{- define "common.resource" }}
{{- include "common.init" . }}
---
apiVersion: {{ .apiVersion }}
kind: {{ .kind }}
{{- include "common.metadata" . }}
spec: {{ toJson .root.Values.spec }}
{{- end }}
