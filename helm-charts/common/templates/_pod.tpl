{{- /*
Renders the variables in this order: envFirst, because other variables refer to these; the other built-in variables and the
value env, by name; the value envs. If a name occurs more than once, the last variable wins.
*/}}
{{- define "common.env" }}
{{- $v := .root.Values }}
{{- $env := get . "env" | default dict }}
{{- with $v.timeZone }}{{ $_ := set $env "TZ" . }}{{ end }}
{{- include "common.override" (dict "to" $env "from" $v.env) }}
{{- $envs := get $v "envs" | default list }}
{{- $last := dict }}
{{- range $i, $x := $envs }}{{ $_ := set $last .name $i }}{{ end }}
{{- $first := get . "envFirst" | default list }}
{{- if or $env $envs }}
env:
  {{- range $name := $first }}
  {{- if hasKey $last . }}
  - {{ get $last . | index $envs | toJson }}
  {{- else if hasKey $env . }}
  {{- include "common.variable" (dict "name" . "value" (get $env .)) }}
  {{- end }}
  {{- end }}
  {{- range $name, $value := $env }}
  {{- if not (or (hasKey $last $name) (has $name $first)) }}
  {{- include "common.variable" (dict "name" $name "value" $value) }}
  {{- end }}
  {{- end }}
  {{- range $i, $x := $envs }}
  {{- if and (eq $i (get $last .name)) (not (has .name $first)) }}
  - {{ toJson . }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "common.variable" }}
  - name: {{ quote .name }}
    {{- if kindIs "string" .value }}
    value: {{ quote .value }}
    {{- else }}
    valueFrom: {{ toJson .value }}
    {{- end }}
{{- end }}

{{- /*
Renders the probes. A probe without a handler uses the component's handler. If the component has no handler, the probe
requests the path at the main port, or connects to that port if there is no path. Without a port, the probe is omitted.
*/}}
{{- define "common.probes" }}
{{- $probes := get .root.Values "probes" | default dict }}
{{- $path := get $probes "path" }}
{{- $port := .port }}
{{- $handlers := get . "handlers" | default dict }}
{{- range $name := list "startup" "readiness" "liveness" }}
{{- with get $probes $name }}
{{- $probe := dict }}
{{- range $field, $x := . }}{{ if ne $field "disabled" }}{{ $_ := set $probe $field $x }}{{ end }}{{ end }}
{{- $ready := or (get . "exec") (get . "httpGet") (get . "tcpSocket") (get . "grpc") | empty | not }}
{{- if not $ready }}
{{- $handler := get $handlers $name }}
{{- if and (not $handler) $port }}
{{- $handler = empty $path | ternary (dict "tcpSocket" (dict "port" $port)) (dict "httpGet" (dict "path" $path "port" $port)) }}
{{- end }}
{{- with $handler }}{{ $ready = true }}{{ range $kind, $x := . }}{{ $_ := set $probe $kind $x }}{{ end }}{{ end }}
{{- end }}
{{- if and $ready (not (get . "disabled")) }}
{{ $name }}Probe: {{ toJson $probe }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Returns a container of the user, as JSON, with a default securityContext if the user sets none. */}}
{{- define "common.container" -}}
{{- $container := . }}
{{- if kindIs "map" (get . "securityContext") | not }}
{{- $container = dict "securityContext" (dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL"))) }}
{{- range $field, $x := . }}{{ if ne $field "securityContext" }}{{ $_ := set $container $field $x }}{{ end }}{{ end }}
{{- end }}
{{- toJson $container }}
{{- end }}

{{- /* Renders the pod template. */}}
{{- define "common.pod" }}
{{- $v := .root.Values }}
{{- $uid := int .user }}
{{- $annotations := dict }}
{{- include "common.override" (dict "to" $annotations "from" (get $v "annotations" | default dict)) }}
{{- include "common.override" (dict "to" $annotations "from" (get . "podAnnotations" | default dict)) }}
{{- $pod := dict "runAsNonRoot" true "runAsUser" $uid "runAsGroup" $uid "fsGroup" $uid "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- $low := false }}
{{- range .containerPorts }}{{ if lt .containerPort 1024 }}{{ $low = true }}{{ end }}{{ end }}
{{- if $low }}{{ $_ := set $pod "sysctls" (list (dict "name" "net.ipv4.ip_unprivileged_port_start" "value" "0")) }}{{ end }}
{{- include "common.override" (dict "to" $pod "from" $v.podSecurityContext) }}
{{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" (get . "readOnly" | default false) "capabilities" (dict "drop" (list "ALL")) }}
{{- include "common.override" (dict "to" $container "from" $v.securityContext) }}
{{- $mounts := get . "mounts" | default list }}
{{- $volumes := get . "volumes" | default list }}
{{- range get . "writable" | default list }}
{{- $volume := . | trimPrefix "/" | replace "/" "-" | replace "." "-" }}
{{- $mounts = append $mounts (dict "name" $volume "mountPath" .) }}
{{- $volumes = append $volumes (dict "name" $volume "emptyDir" dict) }}
{{- end }}
{{- $mounts = concat $mounts (get $v "volumeMounts" | default list) }}
{{- $volumes = concat $volumes (get $v "volumes" | default list) }}
metadata:
  labels: {{ .labels }}
  {{- with $annotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ int $v.terminationGracePeriodSeconds }}
  {{- /* Server-side apply refuses a name twice. */}}
  {{- with get $v "imagePullSecrets" }}
  imagePullSecrets: {{ uniq . | toJson }}
  {{- end }}
  {{- range $field := list "restartPolicy" "serviceAccountName" "nodeSelector" "affinity" "tolerations" "priorityClassName" }}
  {{- with get $v $field }}
  {{ $field }}: {{ toJson . }}
  {{- end }}
  {{- end }}
  {{- with get $v "topologySpreadConstraints" }}
  {{- $own := dict "labelSelector" (dict "matchLabels" (fromJson $.selector)) }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $constraint := dict }}
    {{- include "common.override" (dict "to" $constraint "from" .) }}
    {{- if not (get $constraint "labelSelector") }}{{ include "common.override" (dict "to" $constraint "from" $own) }}{{ end }}
    - {{ toJson $constraint }}
    {{- end }}
  {{- end }}
  securityContext: {{ toJson $pod }}
  {{- $own := get . "initContainers" | default list }}
  {{- $users := get $v "initContainers" | default list }}
  {{- if or $own $users }}
  initContainers:
    {{- range $own }}
    {{- $_ := set . "securityContext" $container }}
    - {{ toJson . }}
    {{- end }}
    {{- range $users }}
    - {{ include "common.container" . }}
    {{- end }}
  {{- end }}
  containers:
    - name: {{ quote .name }}
      image: {{ quote .image }}
      imagePullPolicy: {{ quote $v.imagePullPolicy }}
      {{- /*
      If the user sets arguments, the component's command is omitted, because the arguments are not for that command.
      */}}
      {{- with get $v "command" | default (get $v "args" | empty | ternary (get . "command") "") }}
      command: {{ toJson . }}
      {{- end }}
      {{- with get $v "args" }}
      args: {{ toJson . }}
      {{- end }}
      {{- with .containerPorts }}
      ports:
        {{- range . }}
        - {{ toJson . }}
        {{- end }}
      {{- end }}
      {{- with get $v "envFrom" }}
      envFrom: {{ toJson . }}
      {{- end }}
      {{- include "common.env" . | indent 6 }}
      resources: {{ include "common.resources" . }}
      securityContext: {{ toJson $container }}
      {{- include "common.probes" . | indent 6 }}
      {{- with get . "lifecycle" }}
      lifecycle: {{ toJson . }}
      {{- end }}
      {{- with get . "terminationMessagePolicy" }}
      terminationMessagePolicy: {{ . }}
      {{- end }}
      {{- with $mounts }}
      volumeMounts:
        {{- range . }}
        - {{ toJson . }}
        {{- end }}
      {{- end }}
    {{- range get . "containers" | default list }}
    - {{ toJson . }}
    {{- end }}
    {{- range get $v "sidecars" | default list }}
    - {{ include "common.container" . }}
    {{- end }}
  {{- with $volumes }}
  volumes:
    {{- range . }}
    - {{ toJson . }}
    {{- end }}
  {{- end }}
{{- end }}

{{- /* Adds a rule to an affinity: pods with the labels of the selector run on different nodes. */}}
{{- define "common.antiAffinity" }}
{{- $anti := get .affinity "podAntiAffinity" | default dict }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" .selector) }}
{{- $field := "preferredDuringSchedulingIgnoredDuringExecution" }}
{{- if eq .kind "Hard" }}
{{- $field = "requiredDuringSchedulingIgnoredDuringExecution" }}
{{- else }}
{{- $term = dict "weight" 100 "podAffinityTerm" $term }}
{{- end }}
{{- $_ := set $anti $field (append (get $anti $field | default list) $term) }}
{{- $_ := set .affinity "podAntiAffinity" $anti }}
{{- end }}
