{{- define "microservice" }}
{{- $v := .Values }}
{{- $files := .Files }}
{{- $service := $v.service }}
{{- $preset := dict }}
{{- if $service }}{{ $preset = printf "services/%s/preset.yaml" $service | $files.Get | fromYaml }}{{ end }}
{{- $own := $service | default $v.name | default .Release.Name }}
{{- $port := required "port must be given for a service without a preset" ($v.port | default (get $preset "port")) | int }}
{{- $env := get $preset "env" | default dict }}
{{- range $name, $from := get $preset "secretEnv" | default dict }}
{{- $secret := get $v.credentials $from.secret | default dict }}
{{- $secretName := required (printf "credentials.%s.secretName must be given for %s" $from.secret $service) (get $secret "secretName") }}
{{- $_ := set $env $name (dict "name" $secretName "key" (get $secret (print $from.key "Key") | default $from.key)) }}
{{- end }}
{{- $c := dict "root" . "name" $own "component" $own "port" $port "env" $env
      "image" (required "image must be given for a service without a preset" ($v.image | default (get $preset "image")))
      "resources" ($v.resources | default (get $preset "resources") | default (dict "requests" (dict "cpu" "10m" "memory" "128Mi") "limits" (dict "memory" "1000Mi")))
      "user" (get $preset "user" | default 10001) "readOnly" (get $preset "readOnlyRootFilesystem") "writable" (get $preset "writable") }}
{{- include "common.init" $c }}

{{- with get $preset "config" }}
{{- $uuc := dig "uuc" "url" "" $v.endpoints | trimSuffix "/" }}
{{- $fill := dict "@port@" (toString $port) "@uucIsOpen@" (empty $uuc | not | toString)
      "@mysqlUrl@" (dig "mysql" "url" "" $v.endpoints | trimSuffix "/")
      "@eurekaUrl@" (dig "eureka" "url" "" $v.endpoints | trimSuffix "/") }}
{{- $mounts := list }}{{ $volumes := list }}{{ $sum := "" }}
{{- range . }}
{{- $text := printf "services/%s/%s" $service .file | $files.Get }}
{{- if contains "@uucUrl" $text }}
{{- $text = regexReplaceAll "@uucUrl([^@\n]*)@" $text (empty $uuc | ternary "" (print $uuc "${1}")) }}
{{- end }}
{{- if contains "# begin " $text }}
{{- /* A part that needs an endpoint is left out without it. */}}
{{- range $name := list "proxy" "gateway-master" }}
{{- with get $v.endpoints $name }}{{ $_ := set $fill (printf "@%s@" $name) (printf "%s:%d" .host (int .port)) }}
{{- else }}{{ $text = regexReplaceAll (printf "(?s) *# begin %s\n.*# end %s\n" $name $name) $text "" }}{{ end }}
{{- end }}
{{- end }}
{{- range $mark, $value := $fill }}
{{- if contains $mark $text }}{{ $text = replace $mark (required (printf "endpoints: %s must be given for %s" (trimAll "@" $mark) $service) $value) $text }}{{ end }}
{{- end }}
{{- $suffix := empty .configMap | ternary "" (print "-" .configMap) }}
{{- $sum = print $sum .file "\n" $text }}
{{- $volumes = append $volumes (dict "name" .volume "configMap" (dict "name" (print $c.name $suffix))) }}
{{- $mounts = append $mounts (dict "name" .volume "mountPath" .mountPath "subPath" .file "readOnly" true) }}
{{- include "common.configMap" (dict "component" $c "suffix" $suffix "data" (dict .file $text)) }}
{{- end }}
{{- /* The files are mounted by subPath, which never refreshes: only new pods read a change. */}}
{{- $_ := set $c "podAnnotations" (dict "checksum/config" (sha256sum $sum)) }}
{{- $_ := set $c "volumes" $volumes }}{{ $_ := set $c "mounts" $mounts }}
{{- end }}
{{- include "common.service" $c }}
{{- include "common.workload" $c }}
{{- end }}
