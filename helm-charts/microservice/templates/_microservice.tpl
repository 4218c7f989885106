{{- define "microservice" }}
{{- $v := .Values }}
{{- $service := $v.service }}
{{- $preset := dict }}
{{- if $service }}{{ $preset = printf "services/%s/preset.yaml" $service | .Files.Get | fromYaml }}{{ end }}
{{- $own := $service | default $v.name | default .Release.Name }}
{{- $c := dict "root" . "name" $own "component" $own "port" ($v.port | default (get $preset "port"))
      "image" (required "image must be given for a service without a preset" ($v.image | default (get $preset "image")))
      "resources" (get $preset "resources" | default (dict "requests" (dict "cpu" "10m" "memory" "128Mi") "limits" (dict "memory" "1000Mi")))
      "user" (get $preset "user" | default 10001) "readOnly" (get $preset "readOnlyRootFilesystem") "writable" (get $preset "writable")
      "env" (get $preset "env" | default dict) }}
{{- include "common.init" $c }}
{{- if $service }}
{{- include "microservice.preset" (dict "component" $c "preset" $preset) }}
{{- else }}
{{- include "common.connections" $c }}
{{- include "common.ownFile" $c }}
{{- end }}
{{- include "microservice.pause" (dict "component" $c "preset" $preset) }}
{{- include "common.files" $c }}
{{- include "common.service" $c }}
{{- include "common.workload" $c }}
{{- include "common.autoscaler" $c }}
{{- include "common.disruptionBudget" $c }}
{{- include "common.ingress" $c }}
{{- include "common.httpRoute" $c }}
{{- /* The pods of a StatefulSet are peers of each other. */}}
{{- $_ := set $c "peers" (eq $v.kind "StatefulSet") }}
{{- include "common.networkPolicy" $c }}
{{- end }}

{{- /*
Adds a hook that delays SIGTERM. Without it, a pod would get SIGTERM while Services, proxies and DNS still have its address.
The kubelet waits, so the image needs no program for the hook. Before Kubernetes 1.30, the image must have the program
sleep; otherwise, the pod stops immediately.
*/}}
{{- define "microservice.pause" }}
{{- $root := .component.root }}
{{- $seconds := get $root.Values "preStopSeconds" }}
{{- if or (kindIs "invalid" $seconds) (kindIs "string" $seconds) }}{{ $seconds = get .preset "preStopSeconds" }}{{ end }}
{{- with min (int $seconds) (div (int $root.Values.terminationGracePeriodSeconds) 2) }}
{{- $hook := dict "sleep" (dict "seconds" .) }}
{{- if semverCompare "<1.30.0-0" $root.Capabilities.KubeVersion.Version }}{{ $hook = dict "exec" (dict "command" (list "sleep" (toString .))) }}{{ end }}
{{- $_ := set $.component "lifecycle" (dict "preStop" $hook) }}
{{- end }}
{{- end }}

{{- /* Adds the preset's variables from Secrets, and its files with the addresses of other components. */}}
{{- define "microservice.preset" }}
{{- $c := .component }}
{{- $v := $c.root.Values }}
{{- $service := $v.service }}
{{- $port := $c.listen }}
{{- range $name, $from := get .preset "secretEnv" | default dict }}
{{- $secret := get $v.credentials $from.secret | default dict }}
{{- $secretName := required (printf "credentials.%s.secretName must be given for %s" $from.secret $service) (get $secret "secretName") }}
{{- $_ := set $c.env $name (dict "secretKeyRef" (dict "name" $secretName "key" (get $secret (print $from.key "Key") | default $from.key))) }}
{{- end }}
{{- include "common.redis" $c }}
{{- include "common.etcd" $c }}
{{- include "common.mongodb" $c }}
{{- $uuc := dig "uuc" "url" "" $v.endpoints | trimSuffix "/" }}
{{- /* If the container gets no time zone, the services use this default. */}}
{{- $zone := $v.timeZone | default "Asia/Shanghai" }}
{{- $fill := dict "@jdbcTimeZone@" (replace "+" "%2B" $zone) "@jsonTimeZone@" (eq $zone "Asia/Shanghai" | ternary "GMT+8" $zone) "@port@" (toString $port) "@uucIsOpen@" (empty $uuc | not | toString)
      "@mysqlUrl@" (dig "mysql" "url" "" $v.endpoints | trimSuffix "/")
      "@eurekaUrl@" (dig "eureka" "url" "" $v.endpoints | trimSuffix "/") }}
{{- $files := list }}
{{- range .preset.config }}
{{- $text := printf "services/%s/%s" $service .file | $c.root.Files.Get }}
{{- if contains "@uucUrl" $text }}
{{- $text = regexReplaceAll "@uucUrl([^@\n]*)@" $text (empty $uuc | ternary "" (print $uuc "${1}")) }}
{{- end }}
{{- if contains "# begin " $text }}
{{- /* A component without an endpoint is omitted. */}}
{{- range $name := list "proxy" "gateway-master" }}
{{- with get $v.endpoints $name }}
{{- /* nginx resolves names without a search list. */}}
{{- $_ := set $fill (printf "@%s@" $name) (printf "%s%s:%d" .host (hasSuffix ".svc" .host | ternary "$cluster_domain" "") (int .port)) }}
{{- else }}{{ $text = regexReplaceAll (printf "(?s) *# begin %s\n.*# end %s\n" $name $name) $text "" }}{{ end }}
{{- end }}
{{- end }}
{{- if dig "mysql" "publicKey" false $v.endpoints }}{{ $text = regexReplaceAll "(jdbc:@mysqlUrl@/[a-z_]+\\?)" $text "${1}allowPublicKeyRetrieval=true&" }}{{ end }}
{{- if dig "mysql" "tls" false $v.endpoints }}{{ $text = regexReplaceAll "(jdbc:@mysqlUrl@/[^\"\n]*)useSSL=false&" $text "${1}" }}{{ end }}
{{- with dig "mysql" "tlsVersions" "" $v.endpoints }}{{ $text = regexReplaceAll "(jdbc:@mysqlUrl@/[a-z_]+\\?)" $text (printf "${1}enabledTLSProtocols=%s&" .) }}{{ end }}
{{- range $mark, $value := $fill }}
{{- if contains $mark $text }}{{ $text = replace $mark (required (printf "endpoints: %s must be given for %s" (trimAll "@" $mark) $service) $value) $text }}{{ end }}
{{- end }}
{{- $files = append $files (dict "mountPath" .mountPath "file" .file "text" $text "volume" .volume "settings" (get . "settings") "executable" (get . "executable")
      "suffix" (empty .configMap | ternary "" (print "-" .configMap)) "head" (print .file "\n")) }}
{{- end }}
{{- $_ := set $c "files" $files }}
{{- end }}
