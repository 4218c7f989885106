{{- /*
Every template takes one dict, "the component". common.init sets its identity. The chart sets the other keys:
  root             the chart's top-level context
  name             default name of the objects
  component        default of the label app.kubernetes.io/name
  port             number of the main port; 0 or absent: only the value ports has ports (see common.ports)
  image            image of the component's container
  user             uid and gid of the container
  resources        default of the container's resources
  env              map: name to a string (value) or to a map (valueFrom)
  envFirst         list: the variables that come before the others
  files            list: the product's configuration files (see common.files)
  mounts, volumes  lists of the container's mounts and of the pod's volumes
  containers       list: further containers of the pod
  initContainers   list: they run before the initContainers of the values, with the securityContext of the component's container
  writable         list: paths that get an emptyDir
  readOnly         true if the rest of the root file system is read-only
  podAnnotations, serviceAnnotations           maps
  strategy                                     strategy of a Deployment
  claims, claimRetention, serviceName          fields of a StatefulSet
  command, lifecycle                           fields of the container
  handlers         map: name of a probe to its handler
Templates read a value with get if some charts do not have it. They quote names and texts of the user, because a
service may have a name such as "on" or "null".
*/ -}}

{{- /* identity has the labels of the chart. labels also has the labels of the user. Only two of the labels select pods. */}}
{{- define "common.init" }}
{{- $v := .root.Values }}
{{- $_ := set . "component" ($v.component | default .component) }}
{{- $_ := set . "instance" ($v.instance | default .root.Release.Name) }}
{{- $labels := dict "app.kubernetes.io/name" .component "app.kubernetes.io/instance" .instance }}
{{- $_ := set . "name" ($v.name | default .name) }}
{{- $_ := set . "selector" (toJson $labels) }}
{{- $_ := set $labels "app.kubernetes.io/part-of" "dataservice" }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" ($v.managedBy | default .root.Release.Service) }}
{{- $_ := set . "identity" (toJson $labels) }}
{{- range $name, $value := get $v "labels" | default dict }}
{{- if not (hasKey $labels $name) }}{{ $_ := set $labels $name $value }}{{ end }}
{{- end }}
{{- $_ := set . "labels" (toJson $labels) }}
{{- include "common.ports" . }}
{{- end }}

{{- /*
Copies the keys of "from" to "to". A key with the value null is removed from "to". Unlike Sprig's merges, this also copies
false and 0.
*/}}
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

{{- /* Returns the container's resources, as JSON: the value resources, the amounts of the value size, or the component's default. */}}
{{- define "common.resources" -}}
{{- $v := .root.Values }}
{{- $size := get $v "size" }}
{{- if or $v.resources (eq $size "custom") -}}
{{ toJson $v.resources }}
{{- else if $size -}}
{{ get $v.sizes $size | required (printf "sizes must say what size %s is" $size) | toJson }}
{{- else -}}
{{ toJson .resources }}
{{- end }}
{{- end }}

{{- /*
Adds variables with the addresses of the other components to a component without a preset, if endpoints and credentials
have them. An IPv6 address has no brackets.
*/}}
{{- define "common.connections" }}
{{- $env := .env }}
{{- $v := .root.Values }}
{{- with dig "mysql" "url" "" $v.endpoints }}
{{- $address := regexReplaceAllLiteral "^[a-z]+://" . "" }}
{{- $host := regexFind "^(\\[[^\\]]*\\]|[^:/,]+)" $address }}
{{- $_ := set $env "MYSQL_HOST" (trimAll "[]" $host) }}
{{- $_ := set $env "MYSQL_PORT" (trimPrefix $host $address | regexFind "^:[0-9]+" | trimPrefix ":" | default "3306") }}
{{- end }}
{{- with dig "eureka" "url" "" $v.endpoints }}{{ $_ := set $env "EUREKA_URL" (trimSuffix "/" .) }}{{ end }}
{{- with dig "uuc" "url" "" $v.endpoints }}{{ $_ := set $env "UUC_URL" (trimSuffix "/" .) }}{{ end }}
{{- include "common.account" . }}
{{- include "common.redis" . }}
{{- include "common.etcd" . }}
{{- include "common.mongodb" . }}
{{- end }}

{{- /*
Adds variables with the address of Redis, and with its account, from endpoints and credentials. Spring Boot 2 reads
these names. If the Secret has no username, the account has no name.
*/}}
{{- define "common.redis" }}
{{- $env := .env }}
{{- $v := .root.Values }}
{{- with get $v "endpoints" | default dict | dig "redis" "nodes" "" }}{{ $_ := set $env "SPRING_REDIS_CLUSTER_NODES" . }}{{ end }}
{{- $redis := get $v.credentials "redis" | default dict }}
{{- with get $redis "secretName" }}
{{- $_ := set $env "SPRING_REDIS_PASSWORD" (dict "secretKeyRef" (dict "name" . "key" (get $redis "passwordKey" | default "password"))) }}
{{- with get $redis "usernameKey" }}
{{- $_ := set $env "SPRING_REDIS_USERNAME" (dict "secretKeyRef" (dict "name" $redis.secretName "key" . "optional" true)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
Adds variables with the address of etcd from endpoints. If credentials name a Secret with the certificate of clients, the
Secret is mounted as a folder, so that a renewed certificate appears in the container.
*/}}
{{- define "common.etcd" }}
{{- $c := . }}
{{- $v := .root.Values }}
{{- with get $v "endpoints" | default dict | dig "etcd" "urls" "" }}{{ $_ := set $c.env "ETCD_ENDPOINTS" . }}{{ end }}
{{- $etcd := get $v.credentials "etcd" | default dict }}
{{- with get $etcd "secretName" }}
{{- range $name, $file := dict "ETCD_CA_FILE" "ca.crt" "ETCD_CERT_FILE" "tls.crt" "ETCD_KEY_FILE" "tls.key" }}
{{- $_ := set $c.env $name (print "/etc/d3os/etcd/" $file) }}
{{- end }}
{{- $_ := set $c "mounts" (append (get $c "mounts" | default list) (dict "name" "etcd-certificate" "mountPath" "/etc/d3os/etcd" "readOnly" true)) }}
{{- $_ := set $c "volumes" (append (get $c "volumes" | default list) (dict "name" "etcd-certificate" "secret" (dict "secretName" .))) }}
{{- end }}
{{- end }}

{{- /* Adds a variable with the connection string of MongoDB, from the Secret in credentials or else from endpoints. */}}
{{- define "common.mongodb" }}
{{- $env := .env }}
{{- $v := .root.Values }}
{{- with get $v "endpoints" | default dict | dig "mongodb" "uri" "" }}{{ $_ := set $env "SPRING_DATA_MONGODB_URI" . }}{{ end }}
{{- $mongodb := get $v.credentials "mongodb" | default dict }}
{{- with get $mongodb "secretName" }}
{{- $key := get $mongodb "key" | default "connectionString.standard" }}
{{- $_ := set $env "SPRING_DATA_MONGODB_URI" (dict "secretKeyRef" (dict "name" . "key" $key)) }}
{{- end }}
{{- end }}

{{- /* Adds the program of the agent at /d3os-agent/agent: an init container copies it from .agentImage. */}}
{{- define "common.agent" }}
{{- $_ := set . "initContainers" (list (dict "name" "d3os-agent" "image" .agentImage "imagePullPolicy" "IfNotPresent"
      "command" (list "/agent" "install" "/d3os-agent/agent")
      "resources" (dict "requests" (dict "cpu" "50m" "memory" "32Mi") "limits" (dict "cpu" "500m" "memory" "256Mi"))
      "volumeMounts" (list (dict "name" "d3os-agent" "mountPath" "/d3os-agent")))) }}
{{- $_ := set . "mounts" (append (get . "mounts" | default list) (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)) }}
{{- $_ := set . "volumes" (append (get . "volumes" | default list) (dict "name" "d3os-agent" "emptyDir" dict)) }}
{{- end }}

{{- /*
Adds a container that reports the use of the volume "data" on port 6300, also while the server cannot run. The container
runs the agent in the server's image. If no init container copies the agent yet, this also adds one.
*/}}
{{- define "common.volumeReport" }}
{{- $has := false }}
{{- range get . "initContainers" | default list }}{{ if eq .name "d3os-agent" }}{{ $has = true }}{{ end }}{{ end }}
{{- if not $has }}
{{- $_ := set . "agentImage" (get .root.Values "restoreAgentImage" | default (required "agentImage must be given with autoGrow" .root.Values.agentImage)) }}
{{- include "common.agent" . }}
{{- end }}
{{- $probe := dict "httpGet" (dict "path" "/livez" "port" 6300) "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 6 }}
{{- $_ := set . "containers" (append (get . "containers" | default list) (dict "name" "d3os-volume" "image" .image "imagePullPolicy" .root.Values.imagePullPolicy
      "command" (list "/d3os-agent/agent" "volume" "--volume=/d3os-volume" "--listen=[$(POD_IP)]:6300")
      "env" (list (dict "name" "POD_IP" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP"))))
      "ports" (list (dict "name" "volume" "containerPort" 6300 "protocol" "TCP"))
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "16Mi") "limits" (dict "cpu" "100m" "memory" "64Mi"))
      "livenessProbe" $probe
      "securityContext" (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")))
      "volumeMounts" (list (dict "name" "data" "mountPath" "/d3os-volume" "readOnly" true) (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)))) }}
{{- end }}

{{- /* Adds the variables MYSQL_USERNAME and MYSQL_PASSWORD, if credentials name the Secret of the database account. */}}
{{- define "common.account" }}
{{- $env := .env }}
{{- $mysql := get .root.Values.credentials "mysql" | default dict }}
{{- with get $mysql "secretName" }}
{{- $_ := set $env "MYSQL_USERNAME" (dict "secretKeyRef" (dict "name" . "key" (get $mysql "usernameKey" | default "username"))) }}
{{- $_ := set $env "MYSQL_PASSWORD" (dict "secretKeyRef" (dict "name" . "key" (get $mysql "passwordKey" | default "password"))) }}
{{- end }}
{{- end }}
