{{- /*
Renders a ConfigMap of the component. suffix is added to its name. data maps the names of files to their texts. Unless
quoted is set, each text ends in a newline.
*/}}
{{- define "common.configMap" }}
{{- $quoted := get . "quoted" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ printf "%s%s" .component.name .suffix | quote }}
  namespace: {{ quote .component.root.Release.Namespace }}
  labels: {{ .component.labels }}
data:
  {{- range $file, $text := .data }}
  {{- if $quoted }}
  {{ quote $file }}: {{ quote $text }}
  {{- else }}
  {{ quote $file }}: |
{{ indent 4 $text }}
  {{- end }}
  {{- end }}
{{- end }}

{{- /*
Renders the ConfigMaps of the component's files, and adds their volumes, mounts and checksum to the component. Then it
does the same for the user's files. A file of the component has these fields:
  mountPath   path of the file
  dir         directory to mount instead of the file
  file        key in the ConfigMap
  text        text of the file
  suffix      suffix of the ConfigMap's name; files with the same suffix share a ConfigMap
  volume      name of the volume
  settings    format in which the value config is written into the file: one of the templates common.settings.*
  executable  true if the container runs the file
  head        text before the file's text in the checksum
A file of the user replaces a file of the component with the same path.
*/}}
{{- define "common.files" }}
{{- $c := . }}
{{- $config := get .root.Values "config" | default dict }}
{{- $users := get .root.Values "configFiles" | default list }}
{{- $taken := dict }}
{{- range $users }}{{ $_ := set $taken .path true }}{{ end }}
{{- $mounts := get . "mounts" | default list }}
{{- $volumes := get . "volumes" | default list }}
{{- $sum := "" }}
{{- $maps := dict }}
{{- $used := false }}
{{- range $file := get . "files" | default list }}
{{- $settings := "" }}
{{- if $config }}{{ $settings = get $file "settings" }}{{ end }}
{{- if $settings }}{{ $used = true }}{{ end }}
{{- if not (hasKey $taken .mountPath) }}
{{- if $settings }}{{ include (print "common.settings." $settings) (dict "file" $file "config" $config) }}{{ end }}
{{- $sum = print $sum .head .text }}
{{- if not (hasKey $maps .suffix) }}
{{- $_ := set $maps .suffix (dict "source" (dict "name" (print $c.name .suffix)) "data" dict "quoted" $settings) }}
{{- $volumes = append $volumes (dict "name" .volume "configMap" (get $maps .suffix).source) }}
{{- end }}
{{- $map := get $maps .suffix }}
{{- $_ := set $map.data .file .text }}
{{- if get . "executable" }}{{ $_ := set $map.source "defaultMode" 0o555 }}{{ end }}
{{- $mount := dict "name" .volume "mountPath" (get . "dir" | default .mountPath) "readOnly" true }}
{{- if not (get . "dir") }}{{ $_ := set $mount "subPath" .file }}{{ end }}
{{- $mounts = append $mounts $mount }}
{{- else if $settings }}
{{- fail (printf "%s: configFiles replaces %s, in which config sets values: remove config, or this file from configFiles" $c.name .mountPath) }}
{{- end }}
{{- end }}
{{- range $suffix, $map := $maps }}
{{- include "common.configMap" (dict "component" $c "suffix" $suffix "data" $map.data "quoted" $map.quoted) }}
{{- end }}
{{- if and $config (not $used) }}{{ fail (printf "%s: config is given, but the component has no file for it" $c.name) }}{{ end }}
{{- if $users }}
{{- $more := dict "component" . "mounts" $mounts "volumes" $volumes "sum" $sum }}
{{- include "common.userFiles" $more }}
{{- $mounts = $more.mounts }}{{ $volumes = $more.volumes }}{{ $sum = $more.sum }}
{{- end }}
{{- $_ := set . "mounts" $mounts }}
{{- $_ := set . "volumes" $volumes }}
{{- /*
The files are mounted by subPath, which is never updated. So only new pods read a change, and the checksum makes a
change replace the pods.
*/}}
{{- if $sum }}{{ $_ := set . "podAnnotations" (dict "checksum/config" (sha256sum $sum)) }}{{ end }}
{{- end }}

{{- /*
Renders one ConfigMap with the contents in configFiles. Mounts it, and each ConfigMap and Secret to which configFiles
refers.
*/}}
{{- define "common.userFiles" }}
{{- $inline := dict }}
{{- $others := dict }}
{{- $mounts := .mounts }}
{{- $volumes := .volumes }}
{{- range .component.root.Values.configFiles }}
{{- if and (hasKey . "content") (kindIs "string" .content) }}
{{- /*
A key of a ConfigMap has no slash, so ".." replaces it. No folder name begins or ends with a dot, so the keys are
unique.
*/}}
{{- $key := trimPrefix "/" .path | replace "/" ".." }}
{{- $_ := set $inline $key .content }}
{{- $mounts = append $mounts (dict "name" "config-files" "mountPath" .path "subPath" $key "readOnly" true) }}
{{- else }}
{{- $object := dict "configMap" (dict "name" (get . "configMap")) }}
{{- with get . "secret" }}{{ $object = dict "secret" (dict "secretName" .) }}{{ end }}
{{- $id := get . "configMap" | default (get . "secret") | required (printf "configFiles: %s needs content, configMap or secret" .path) }}
{{- $id = print (keys $object | first) "/" $id }}
{{- if not (hasKey $others $id) }}
{{- $_ := set $object "name" (printf "config-file-%d" (len $others)) }}
{{- $_ := set $others $id $object.name }}
{{- $volumes = append $volumes $object }}
{{- end }}
{{- $mounts = append $mounts (dict "name" (get $others $id) "mountPath" .path "subPath" (get . "key" | default (base .path)) "readOnly" true) }}
{{- end }}
{{- end }}
{{- if $inline }}
{{- $volumes = append $volumes (dict "name" "config-files" "configMap" (dict "name" (print .component.name "-files"))) }}
{{- /* The texts are quoted, because a YAML block would lose leading spaces and unprintable characters. */}}
{{- include "common.configMap" (dict "component" .component "suffix" "-files" "data" $inline "quoted" true) }}
{{- $_ := set . "sum" (print .sum (toJson $inline)) }}
{{- end }}
{{- $_ := set . "mounts" $mounts }}
{{- $_ := set . "volumes" $volumes }}
{{- end }}

{{- /* Adds the file with the settings of a component without a preset. Spring Boot reads this file. */}}
{{- define "common.ownFile" }}
{{- if get .root.Values "config" }}
{{- $_ := set . "files" (list (dict "mountPath" "/config/application.properties" "file" "application.properties" "text" ""
      "suffix" "" "volume" "configs" "settings" "properties" "head" "application.properties\n")) }}
{{- end }}
{{- end }}
