{{- /*
Every template takes one dict, "the component". common.init fills in its identity, the chart adds the rest:
  root        the chart's top-level context
  name        default name of the objects;  component  default of the name label
  port        0 or absent: the container listens on nothing
  image, resources, user (uid and gid)
  env         map: a string is a value, a {name, key} map is a key of a Secret
  mounts, volumes       lists
  writable    paths that get an emptyDir;  readOnly  whether the rest of the root file system is read-only
  podAnnotations, serviceAnnotations
  strategy    of a Deployment;  claims, claimRetention  of a StatefulSet
  command     of the container;  probes  replaces the probes of the values
Names and user text are quoted: a service may well be called "on" or "null".
*/ -}}

{{- define "common.init" }}
{{- $v := .root.Values }}
{{- $select := dict "app.kubernetes.io/name" ($v.component | default .component) "app.kubernetes.io/instance" ($v.instance | default .root.Release.Name) }}
{{- $_ := set . "name" ($v.name | default .name) }}
{{- $_ := set . "selector" (toJson $select) }}
{{- $_ := set $select "app.kubernetes.io/part-of" "dataservice" }}
{{- $_ := set $select "app.kubernetes.io/managed-by" ($v.managedBy | default .root.Release.Service) }}
{{- $_ := set . "labels" (toJson $select) }}
{{- end }}

{{- /* Overrides keys of "to" by those of "from"; null removes one. Unlike Sprig's merges it honours false and 0. */}}
{{- define "common.override" }}
{{- $to := .to }}
{{- range $k, $x := .from }}
{{- if kindIs "invalid" $x }}{{ $_ := unset $to $k }}{{ else }}{{ $_ := set $to $k $x }}{{ end }}
{{- end }}
{{- end }}

{{- define "common.metadata" }}
metadata:
  name: {{ quote .name }}
  namespace: {{ quote .root.Release.Namespace }}
  labels: {{ .labels }}
{{- end }}

{{- /* component, "suffix" of the name, "data": map of file name to text ending in a newline */}}
{{- define "common.configMap" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ printf "%s%s" .component.name .suffix | quote }}
  namespace: {{ quote .component.root.Release.Namespace }}
  labels: {{ .component.labels }}
data:
  {{- range $file, $text := .data }}
  {{ quote $file }}: |
{{ indent 4 $text }}
  {{- end }}
{{- end }}

{{- define "common.service" }}
{{- $nodePort := int .root.Values.nodePort }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" . }}
  {{- with get . "serviceAnnotations" }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  type: {{ if $nodePort }}NodePort{{ else }}ClusterIP{{ end }}
  selector: {{ .selector }}
  ports:
    - name: http
      port: {{ int .port }}
      targetPort: {{ int .port }}
      protocol: TCP
      {{- if $nodePort }}
      nodePort: {{ $nodePort }}
      {{- end }}
{{- end }}

{{- define "common.workload" }}
{{- $v := .root.Values }}
{{- $port := get . "port" | int }}
{{- $uid := int .user }}
{{- $annotations := deepCopy $v.podAnnotations }}
{{- include "common.override" (dict "to" $annotations "from" (get . "podAnnotations" | default dict)) }}
{{- $pod := dict "runAsNonRoot" true "runAsUser" $uid "runAsGroup" $uid "fsGroup" $uid "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- if and $port (lt $port 1024) }}{{ $_ := set $pod "sysctls" (list (dict "name" "net.ipv4.ip_unprivileged_port_start" "value" "0")) }}{{ end }}
{{- include "common.override" (dict "to" $pod "from" $v.podSecurityContext) }}
{{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" (get . "readOnly" | default false) "capabilities" (dict "drop" (list "ALL")) }}
{{- include "common.override" (dict "to" $container "from" $v.containerSecurityContext) }}
{{- $env := get . "env" | default dict }}
{{- with $v.timeZone }}{{ $_ := set $env "TZ" . }}{{ end }}
{{- include "common.override" (dict "to" $env "from" $v.env) }}
{{- $mounts := get . "mounts" | default list }}
{{- $volumes := get . "volumes" | default list }}
{{- range get . "writable" | default list }}
{{- $volume := . | trimPrefix "/" | replace "/" "-" | replace "." "-" }}
{{- $mounts = append $mounts (dict "name" $volume "mountPath" .) }}
{{- $volumes = append $volumes (dict "name" $volume "emptyDir" dict) }}
{{- end }}
---
apiVersion: apps/v1
kind: {{ $v.kind }}
{{- include "common.metadata" . }}
spec:
  {{- if ne $v.kind "DaemonSet" }}
  replicas: {{ int $v.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  {{- if eq $v.kind "Deployment" }}
  progressDeadlineSeconds: 600
  strategy: {{ get . "strategy" | default (dict "type" "RollingUpdate" "rollingUpdate" (dict "maxUnavailable" 0 "maxSurge" 1)) | toJson }}
  {{- else if eq $v.kind "StatefulSet" }}
  serviceName: {{ quote .name }}
  {{- /* Parallel, for an OrderedReady set never replaces a pod that does not become ready. */}}
  podManagementPolicy: Parallel
  {{- with get . "claimRetention" }}
  persistentVolumeClaimRetentionPolicy: {{ toJson . }}
  {{- end }}
  {{- with get . "claims" }}
  volumeClaimTemplates: {{ toJson . }}
  {{- end }}
  {{- end }}
  selector:
    matchLabels: {{ .selector }}
  template:
    metadata:
      labels: {{ .labels }}
      {{- with $annotations }}
      annotations: {{ toJson . }}
      {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ int $v.terminationGracePeriodSeconds }}
      securityContext: {{ toJson $pod }}
      containers:
        - name: {{ quote .name }}
          image: {{ quote .image }}
          imagePullPolicy: {{ $v.imagePullPolicy }}
          {{- with get . "command" }}
          command: {{ toJson . }}
          {{- end }}
          {{- if $port }}
          ports:
            - name: http
              containerPort: {{ $port }}
              protocol: TCP
          {{- end }}
          {{- with $env }}
          env:
            {{- range $name, $value := . }}
            - name: {{ quote $name }}
              {{- if kindIs "string" $value }}
              value: {{ quote $value }}
              {{- else }}
              valueFrom: {secretKeyRef: {{ toJson $value }}}
              {{- end }}
            {{- end }}
          {{- end }}
          resources: {{ toJson .resources }}
          securityContext: {{ toJson $container }}
          {{- range $name, $probe := get . "probes" | default (get $v "probes") | default dict }}
          {{- with $probe }}
          {{ $name }}Probe: {{ if pick . "exec" "httpGet" "tcpSocket" "grpc" }}{{ toJson . }}{{ else }}{{ merge (dict "tcpSocket" (dict "port" $port)) . | toJson }}{{ end }}
          {{- end }}
          {{- end }}
          {{- with $mounts }}
          volumeMounts:
            {{- range . }}
            - {{ toJson . }}
            {{- end }}
          {{- end }}
      {{- with $volumes }}
      volumes:
        {{- range . }}
        - {{ toJson . }}
        {{- end }}
      {{- end }}
{{- end }}
