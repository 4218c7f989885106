{{- /* member prints the table row of a field. Some Kubernetes types have no schema in the CRD, so their type is only
     "object". For these fields, the row links to the type that the description names in brackets. Without brackets, the
     name of the field determines the type. */ -}}
{{- define "member" -}}
{{- $field := .field -}}
{{- $doc := $field.Doc -}}
{{- $example := "" -}}
{{- with index $field.Markers "kubebuilder:example" }}{{ $example = printf "`%v`" (index . 0).Value }}{{ end -}}
{{- if eq $field.Name "metadata" }}{{ $doc = "metadata has the name, the labels and the annotations of the object." }}{{ $example = "`{name: platform}`" }}{{ end -}}

{{- /* The reference of Kubernetes has no section for these string types. */ -}}
{{- $kind := markdownRenderType $field.Type | replace "object (keys:string, values:string)" "object of strings" -}}
{{- $kind = regexReplaceAll "\\[(PullPolicy|ServiceAffinity|RestartPolicy|Protocol)\\]\\([^)]*\\)" $kind "string" -}}
{{- $kind = regexReplaceAll "\\[IntOrString\\]\\([^)]*\\)" $kind "integer or string" -}}
{{- $kind = regexReplaceAll "\\[Quantity\\]\\([^)]*\\)" $kind "quantity" -}}
{{- /* The types of backups, which other groups use, have a separate page. */}}
{{- if not (index .own "ClusterBackup") }}
{{- $kind = regexReplaceAll "\\[(AutoGrow|ClusterBackup|ClusterBackupStatus|ClusterRestore|BackupDestination|BackupEncryption|BackupRetention|SecretName)\\]\\(#" $kind "[$1](backup.md#" }}
{{- end }}
{{- if contains "[Object](#object)" $kind -}}
{{- $named := regexFind "\\([A-Z][A-Za-z]+\\)" $doc | trimAll "()" -}}
{{- $doc = replace (printf " (%s)" $named) "" $doc -}}
{{- $checks := list "startup" "readiness" "liveness" -}}
{{- if has $field.Name $checks }}{{ $named = "Probe" }}{{ end -}}
{{- if not $named }}{{ $named = regexReplaceAll "Constraints$" (printf "%s%s" (substr 0 1 $field.Name | upper) (substr 1 -1 $field.Name)) "Constraint" }}{{ end -}}
{{- $group := eq $named "NetworkPolicyPeer" | ternary "networking-k8s-io" "core" -}}
{{- $link := printf "https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.37/#%s-v1-%s" (lower $named) $group -}}
{{- if index .own $named }}{{ $link = printf "#%s" (lower $named) }}{{ end -}}
{{- if hasPrefix "Cluster" $named }}{{ $link = printf "backup.md#%s" (lower $named) }}{{ end -}}
{{- $kind = replace "[Object](#object)" (printf "[%s](%s)" $named $link) $kind -}}
{{- end -}}

{{- $default := regexFind "Default: [^\x00]*" $doc -}}
{{- $doc = $doc | trimSuffix $default | trim -}}
{{- $default = $default | trimPrefix "Default: " | trimSuffix "." -}}
{{- if $field.Default }}{{ $default = printf "`%s`" (replace "{  }" "{}" $field.Default) }}{{ end -}}
{{- $optional := or (index $field.Markers "optional") (index $field.Markers "kubebuilder:default") (eq $field.Name "metadata") -}}
{{- $shared := list "imagePullSecrets" "labels" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" "priorityClassName" -}}
{{- if and (not $default) (has $field.Name $shared) (not (has .type (list "Defaults" "Pod"))) }}{{ $default = "that of `spec.defaults`" }}{{ end -}}
{{- if not $default }}{{ $default = empty $optional | ternary "required" "none" }}{{ end -}}
| `{{ $field.Name }}` {{ $kind }} | {{ template "text" $doc }} | {{ template "text" $default }} | {{ template "text" $example }} | {{ template "rules" $field.Validation }} |
{{- end -}}

{{- /* Text in a cell of a table. Angle brackets are escaped, except in code. */ -}}
{{- define "text" -}}
{{- $text := . | trim | replace "|" "\\|" | replace "\n" " " -}}
{{- if not (hasPrefix "`" $text) }}{{ $text = replace "<" "&lt;" $text }}{{ end -}}
{{- $text -}}
{{- end -}}

{{- /* Limits in words. A pattern that only lists values is printed as an enumeration. The default shows whether a field is optional. */ -}}
{{- define "rules" -}}
{{- $words := dict "Minimum" "at least %s" "Maximum" "at most %s" "MinLength" "at least %s characters" "MaxLength" "at most %s characters"
    "MaxItems" "at most %s items" "MaxProperties" "at most %s entries" "Enum" "one of %s" "Pattern" "matching `%s`" -}}
{{- $rules := . -}}
{{- $found := list -}}
{{- range list "Enum" "Minimum" "Maximum" "MinLength" "MaxLength" "MaxItems" "MaxProperties" "Pattern" -}}
{{- $rule := . -}}
{{- range $rules -}}
{{- if hasPrefix (printf "%s: " $rule) . -}}
{{- $value := . | trimPrefix (printf "%s: " $rule) | trimAll "`" -}}
{{- $name := $rule -}}
{{- if regexMatch "^\\^\\([A-Za-z|]+\\)\\$$" $value }}{{ $name = "Enum" }}{{ $value = $value | trimPrefix "^(" | trimSuffix ")$" | replace "|" " " }}{{ end -}}
{{- if eq $name "Enum" }}{{ $value = $value | trimAll "[]" | replace " " ", " }}{{ end -}}
{{- $found = append $found (get $words $name | replace "%s" (replace "|" "\\|" $value)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join ", " $found -}}
{{- end -}}
