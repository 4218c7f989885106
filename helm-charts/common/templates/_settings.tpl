{{- /*
The templates common.settings.<format> write settings into the text of a file. They take the file and config, a map of
strings, and change the text of the file.
*/}}

{{- /* A name with dots is a path of keys. Each key on the path becomes a map. A top-level key with the same name is removed. */}}
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

{{- /* Processes each line of the text and each setting only once, because there may be thousands. */}}
{{- define "common.settings.properties" }}
{{- $lines := dict }}
{{- $keys := dict }}
{{- range $name, $value := .config }}
{{- $key := include "common.properties.escape" $name | replace " " "\\ " | replace ":" "\\:" | replace "=" "\\=" }}
{{- $_ := set $keys $name $key }}
{{- $_ := set $lines $key (printf "%s%s=%s" (or (hasPrefix "#" $key) (hasPrefix "!" $key) | ternary "\\" "") $key (include "common.properties.escape" $value)) }}
{{- end }}
{{- $_ := set .file "text" (include "common.properties.text" (dict "text" .file.text "lines" $lines "keys" $keys)) }}
{{- end }}

{{- /* Replaces the lines of existing keys, and appends the other lines. */}}
{{- define "common.properties.text" -}}
{{- $lines := .lines }}
{{- $used := dict }}
{{- $all := splitList "\n" .text }}
{{- $end := sub (len $all) 1 | int }}
{{- range $i, $line := $all }}
{{- $key := regexFind "^[ \t]*(?:\\\\.|[^=: \t\\\\])*[ \t]*[=:]" $line | trimSuffix "=" | trimSuffix ":" | trim }}
{{- if hasKey $lines $key }}{{ $line = get $lines $key }}{{ $_ := set $used $key true }}{{ end }}
{{- $line }}{{ if lt $i $end }}{{ "\n" }}{{ end }}
{{- end }}
{{- range $name, $key := .keys }}
{{- if not (hasKey $used $key) }}{{ print (get $lines $key) "\n" }}{{ end }}
{{- end }}
{{- end }}

{{- /*
Escapes a text for java.util.Properties, which reads ISO 8859-1. Go's escapes differ from Java's in three cases: quotes,
control characters, and characters above U+FFFF, which Java writes as two escapes.
*/}}
{{- define "common.properties.escape" -}}
{{- if regexMatch "^[A-Za-z0-9._/@-]*$" . }}{{ . }}
{{- else }}
{{- if hasPrefix " " . }}{{ "\\" }}{{ end }}
{{- /* Each match is a sequence of unchanged characters, a sequence with the same replacement, or one character above U+FFFF. */}}
{{- range regexFindAll "(?:\\\\[\\\\nrtfu]|[^\\\\])+|(?:\\\\x[0-9a-f]{2})+|(?:\\\\[abv\"'])+|\\\\U[0-9a-f]{8}|\\\\." (printf "%+q" . | trimPrefix "\"" | trimSuffix "\"") -1 }}
{{- if hasPrefix "\\U" . }}
{{- $n := sub (trimPrefix "\\U" . | print "0x" | int) 65536 | int }}
{{- printf "\\u%04x\\u%04x" (add 55296 (div $n 1024)) (add 56320 (mod $n 1024)) }}
{{- else if hasPrefix "\\x" . }}{{ replace "\\x" "\\u00" . }}
{{- else if or (hasPrefix "\\a" .) (hasPrefix "\\b" .) (hasPrefix "\\v" .) (hasPrefix "\\\"" .) }}{{ replace "\\a" "\\u0007" . | replace "\\b" "\\u0008" | replace "\\v" "\\u000b" | replace "\\\"" "\"" }}
{{- else }}{{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Writes true, false and numbers without quotes, and any other value as a string. */}}
{{- define "common.settings.javascript" }}
{{- $_ := set .file "text" (include "common.javascript.text" .) }}
{{- end }}

{{- define "common.javascript.text" -}}
{{ .file.text }}Object.assign(window.HAIER_APP_CONFIG, {
{{- $first := true }}
{{- range $name, $value := .config }}
{{- $plain := regexMatch "^(true|false|-?(0|[1-9][0-9]*)([.][0-9]+)?)$" $value }}
{{- if not $first }}{{ ", " }}{{ end }}{{ printf "%s: %s" (toJson $name) (ternary $value (toJson $value) $plain) }}
{{- $first = false }}
{{- end }}{{ print "});\n" }}
{{- end }}

{{- /* Appends a group [mysqld]. Its options override earlier ones. An option without a value is a switch. */}}
{{- define "common.settings.mysqld" }}
{{- $_ := set .file "text" (include "common.mysqld.text" .) }}
{{- end }}

{{- define "common.mysqld.text" -}}
{{ print .file.text "\n[mysqld]\n" }}
{{- range $name, $value := .config }}
{{- if regexMatch "[\r\n]" (print $name $value) }}{{ fail (printf "config: %q of mysql must be one line" $name) }}{{ end }}
{{- if not (regexMatch "^[A-Za-z][A-Za-z0-9_.-]*$" $name) }}{{ fail (printf "config: %q is not the name of an option" $name) }}{{ end }}
{{- if regexMatch "^('.*'|\".*\"|'|\")$" $value }}{{ fail (printf "config: %q of mysql must not be in quotes" $name) }}{{ end }}
{{- print $name (empty $value | ternary "" (print " = " (include "common.mysqld.value" $value))) "\n" }}
{{- end }}
{{- end }}

{{- /*
Quotes a value that mysqld would otherwise truncate or change: a value that begins or ends with a space or a non-ASCII
character, has escapes, or has a # outside of quotes.
*/}}
{{- define "common.mysqld.value" -}}
{{- $cut := and (contains "#" .) (not (regexMatch "^([^'\"#]|'[^']*'|\"[^\"]*\")*$" .)) }}
{{- if or $cut (regexMatch "^[^!-~]|[^!-~]$" .) (regexMatch "\\\\[nrtbs\"'\\\\]" .) }}
{{- printf "\"%s\"" (replace "\\" "\\\\" . | replace "\"" "\\\"") }}
{{- else }}{{ . }}
{{- end }}
{{- end }}
