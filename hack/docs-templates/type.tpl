{{- define "type" -}}
{{- $type := .type -}}
{{- $own := .own -}}
### {{ $type.Name }}

{{ if $type.IsAlias }}_Underlying type:_ {{ markdownRenderTypeLink $type.UnderlyingType }}

{{ end -}}
{{ $type.Doc }}
{{ if and $type.Validation (ne $type.Name "Object") }}
Each is {{ template "rules" $type.Validation }}.
{{ end -}}
{{ $from := list -}}
{{ range $type.SortedReferences -}}
{{ if not (has .Name $.inlined) }}{{ $from = append $from (markdownRenderTypeLink .) }}{{ end -}}
{{ end -}}
{{ if and $from (ne $type.Name "Object") }}
Appears in {{ join ", " $from }}.
{{ end -}}
{{ if and $type.Members (ne $type.Name "Object") }}
| Field | Description | Default | Example | Validation |
| --- | --- | --- | --- | --- |
{{ if $type.GVK -}}
| `apiVersion` string | The API's group and version. | required | `{{ $type.GVK.Group }}/{{ $type.GVK.Version }}` | |
| `kind` string | The resource's kind. | required | `{{ $type.GVK.Kind }}` | |
{{ end -}}
{{ range $type.Members -}}
{{ template "member" (dict "field" . "own" $own "type" $type.Name) }}
{{ end -}}
{{ end -}}
{{ if and $type.EnumValues (index $type.EnumValues 0).Doc }}
| Value | Description |
| --- | --- |
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ template "text" .Doc }} |
{{ end -}}
{{ end -}}
{{ end -}}
