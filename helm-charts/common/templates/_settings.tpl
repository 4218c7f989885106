{{- /*
How settings are written into the text of a file: common.settings.<format> takes "file" and "config", a map of strings,
and changes the file's text.
*/}}

{{- /* A dotted name is a path of keys, whatever stands in its way; a top-level key written with dots is one too. */}}
{{- define "common.settings.yaml" }}
{{- $tree := fromYaml .file.text }}
{{- with get $tree "Error" }}{{ fail . }}{{ end }}
{{- range $name, $value := .config }}
{{- $_ := unset $tree $name }}
{{- $node := $tree }}
{{- $path := splitList "." $name }}
{{- range initial $path }}
{{- if not (kindIs "map" (get $node .)) }}{{ $_ := set $node . dict }}{{ end }}
{{- $node = get $node . }}
{{- end }}
{{- $_ := set $node (last $path) $value }}
{{- end }}
{{- $_ := set .file "text" (print (toYaml $tree) "\n") }}
{{- end }}

{{- define "common.settings.properties" }}
{{- $text := .file.text }}
{{- range $name, $value := .config }}
{{- $key := include "common.properties.escape" $name | replace " " "\\ " | replace ":" "\\:" | replace "=" "\\=" }}
{{- $line := printf "%s=%s" (regexReplaceAll "^[#!]" $key "\\${0}") (include "common.properties.escape" $value) }}
{{- $pattern := printf "(?m)^[ \t]*%s[ \t]*[=:].*$" (regexQuoteMeta $key) }}
{{- if regexMatch $pattern $text }}
{{- $text = regexReplaceAllLiteral $pattern $text $line }}
{{- else }}
{{- $text = print $text $line "\n" }}
{{- end }}
{{- end }}
{{- $_ := set .file "text" $text }}
{{- end }}

{{- /*
The escapes of java.util.Properties, which reads ISO 8859-1, are those of Go but for quotes, control characters and
characters beyond U+FFFF, which Java writes as two.
*/}}
{{- define "common.properties.escape" -}}
{{- $pairs := dict }}
{{- range regexFindAll "[\\x{10000}-\\x{10ffff}]" . -1 }}
{{- $code := printf "%+q" . | trimAll "\"" }}
{{- $n := sub (trimPrefix "\\U" $code | print "0x" | int) 65536 | int }}
{{- $_ := set $pairs $code (printf "\\u%04x\\u%04x" (add 55296 (div $n 1024)) (add 56320 (mod $n 1024))) }}
{{- end }}
{{- $parts := list }}
{{- /* Not in what follows an escaped backslash. */}}
{{- range printf "%+q" . | trimPrefix "\"" | trimSuffix "\"" | replace "\\\"" "\"" | splitList "\\\\" }}
{{- $part := regexReplaceAll "\\\\x([0-9a-f]{2})" . "\\u00${1}" | replace "\\a" "\\u0007" | replace "\\b" "\\u0008" | replace "\\v" "\\u000b" }}
{{- range $code, $pair := $pairs }}{{ $part = replace $code $pair $part }}{{ end }}
{{- $parts = append $parts $part }}
{{- end }}
{{- $text := join "\\\\" $parts }}
{{- if hasPrefix " " $text }}\{{ end }}{{ $text }}
{{- end }}

{{- /* true, false and numbers are themselves, anything else is a string. */}}
{{- define "common.settings.javascript" }}
{{- $pairs := list }}
{{- range $name, $value := .config }}
{{- $plain := regexMatch "^(true|false|-?(0|[1-9][0-9]*)([.][0-9]+)?)$" $value }}
{{- $pairs = append $pairs (printf "%s: %s" (toJson $name) (ternary $value (toJson $value) $plain)) }}
{{- end }}
{{- $_ := set .file "text" (printf "%sObject.assign(window.HAIER_APP_CONFIG, {%s});\n" .file.text (join ", " $pairs)) }}
{{- end }}

{{- /* The last group wins. An option without a value is a switch. */}}
{{- define "common.settings.mysqld" }}
{{- $text := print .file.text "\n[mysqld]\n" }}
{{- range $name, $value := .config }}
{{- if regexMatch "[\r\n]" (print $name $value) }}{{ fail (printf "config: %q of mysql must be one line" $name) }}{{ end }}
{{- $text = print $text $name (empty $value | ternary "" (print " = " $value)) "\n" }}
{{- end }}
{{- $_ := set .file "text" $text }}
{{- end }}
