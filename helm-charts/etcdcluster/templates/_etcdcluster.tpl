{{- define "etcdcluster" }}
{{- $v := .Values }}
{{- $c := dict "root" . "name" .Release.Name "component" "etcd" "image" $v.image "user" 1000 "readOnly" true
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "256Mi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) }}
{{- include "common.init" $c }}
{{- include "etcdcluster.identity" $c }}
{{- include "etcdcluster.container" $c }}
{{- if and $v.restoreFrom (not $v.formed) }}{{ include "etcdcluster.birth" $c }}{{ end }}
{{- if $v.storage.autoGrow }}{{ include "common.volumeReport" $c }}{{ end }}
{{- include "etcdcluster.record" $c }}
{{- include "etcdcluster.services" $c }}
{{- include "etcdcluster.networkPolicy" $c }}
{{- include "etcdcluster.set" $c }}
{{- include "etcdcluster.disruptionBudget" $c }}
{{- if $v.backup }}{{ include "etcdcluster.backup" $c }}{{ end }}
{{- end }}

{{- /* Adds the value ownerLabels to the selector of pods and to the labels of all objects, and removes the label part-of. */}}
{{- define "etcdcluster.identity" }}
{{- $owner := .root.Values.ownerLabels }}
{{- range $field := list "selector" "identity" "labels" }}
{{- $labels := get $ $field | fromJson }}
{{- $_ := unset $labels "app.kubernetes.io/part-of" }}
{{- include "common.override" (dict "to" $labels "from" $owner) }}
{{- $_ := set $ $field (toJson $labels) }}
{{- end }}
{{- end }}

{{- /*
The agent is the first process of the container. It becomes etcd if the volume has the data of this pod. On any other
volume it waits for a ticket, an annotation on the pod. So a member without data never votes.
*/}}
{{- define "etcdcluster.container" }}
{{- $v := .root.Values }}
{{- $env := dict }}
{{- range $name, $path := dict "POD_IP" "status.podIP" "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" }}
{{- $_ := set $env $name (dict "fieldRef" (dict "fieldPath" $path)) }}
{{- end }}
{{- $_ := set . "env" $env }}
{{- $_ := set . "containerPorts" (list (dict "name" "client" "containerPort" 2379 "protocol" "TCP")
      (dict "name" "peer" "containerPort" 2380 "protocol" "TCP") (dict "name" "metrics" "containerPort" 2381 "protocol" "TCP")) }}
{{- $command := list "/d3os-agent/agent" "member" "etcd" "--volume=/data" "--ticket=/d3os-ticket/ticket" "--notes=/d3os-notes" "--record=/d3os-record" "--report=/dev/termination-log"
      (printf "--domain=%s-headless.%s.svc" .name .root.Release.Namespace) }}
{{- with $v.version }}{{ $command = append $command (print "--version=" .) }}{{ end }}
{{- $data := dict "name" "data" "mountPath" "/data" }}
{{- $mounts := list $data (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
      (dict "name" "d3os-notes" "mountPath" "/d3os-notes") (dict "name" "d3os-ticket" "mountPath" "/d3os-ticket" "readOnly" true)
      (dict "name" "d3os-record" "mountPath" "/d3os-record" "readOnly" true) }}
{{- $ticket := dict "path" "ticket" "fieldRef" (dict "fieldPath" "metadata.annotations['d3os-product.com.d3os/ticket']") }}
{{- $volumes := list (dict "name" "d3os-agent" "emptyDir" dict) (dict "name" "d3os-notes" "emptyDir" dict)
      (dict "name" "d3os-ticket" "downwardAPI" (dict "items" (list $ticket)))
      (dict "name" "d3os-record" "configMap" (dict "name" (print .name "-membership"))) }}
{{- range $role, $secret := dict "server" $v.tls.serverSecret "peer" $v.tls.peerSecret }}
{{- with $secret }}
{{- $command = append $command (printf "--%s-tls=/tls/%s" $role $role) }}
{{- $mounts = append $mounts (dict "name" (print "tls-" $role) "mountPath" (print "/tls/" $role) "readOnly" true) }}
{{- $items := list }}
{{- range $file := list "ca.crt" "tls.crt" "tls.key" }}{{ $items = append $items (dict "key" $file "path" $file) }}{{ end }}
{{- $volumes = append $volumes (dict "name" (print "tls-" $role) "secret" (dict "secretName" . "items" $items)) }}
{{- end }}
{{- end }}
{{- $command = append $command "--" }}
{{- range $flag, $value := $v.flags }}{{ $command = append $command (printf "--%s=%s" $flag $value) }}{{ end }}
{{- /* The agent writes a termination message. etcd does not: the cause of its end is in its log. */}}
{{- $_ := set . "terminationMessagePolicy" "FallbackToLogsOnError" }}
{{- $_ := set . "command" $command }}
{{- $_ := set . "mounts" $mounts }}
{{- $_ := set . "volumes" $volumes }}
{{- /*
Before 3.4.29 and 3.5.11, etcd has only the path /health. No probe may request it: 3.4 writes a line to its write-ahead
log for each answer, in a form that 3.6 refuses, and members would not start after an upgrade.
*/}}
{{- $live := dict "httpGet" (dict "path" "/livez" "port" 2381) }}
{{- $ready := dict "httpGet" (dict "path" "/readyz" "port" 2381) }}
{{- if $v.legacyHealth }}
{{- $live = dict "tcpSocket" (dict "port" 2381) }}
{{- $ready = dict "tcpSocket" (dict "port" 2379) }}
{{- end }}
{{- /*
Reads block for minutes while etcd rewrites its database file. So any answer of the process counts as a sign of life.
*/}}
{{- $alive := deepCopy $live }}
{{- if not $v.legacyHealth }}{{ $_ := set $alive.httpGet "path" "/livez?exclude=serializable_read" }}{{ end }}
{{- $_ := set . "handlers" (dict "startup" $live "readiness" $ready "liveness" $alive) }}
{{- $_ := set . "initContainers" (list (dict "name" "d3os-agent" "image" (required "agentImage must be given" $v.agentImage) "imagePullPolicy" "IfNotPresent"
      "command" (list "/agent" "install" "/d3os-agent/agent")
      "resources" (dict "requests" (dict "cpu" "50m" "memory" "16Mi") "limits" (dict "cpu" "500m" "memory" "64Mi"))
      "volumeMounts" (list (dict "name" "d3os-agent" "mountPath" "/d3os-agent")))) }}
{{- end }}

{{- /*
The operator writes its record of the cluster into the annotation etcd.database.coreos.com/record of this ConfigMap.
*/}}
{{- define "etcdcluster.record" }}
---
apiVersion: v1
kind: ConfigMap
{{- include "common.metadata" (dict "root" .root "name" (print .name "-membership") "labels" .labels) }}
data:
  about: "The operator's record of this etcd cluster: how many members it has at present, and of which version. For each pod: the cluster and member of its data, and the term and index up to which its log went."
  {{- range $pod, $position := .root.Values.positions }}
  {{ $pod | quote }}: {{ $position | quote }}
  {{- end }}
  {{- if and .root.Values.restoreFrom .root.Values.formed }}
  {{- /* Pods read this key as a file. Once the file exists, no pod restores the backup. */}}
  formed: "true"
  {{- end }}
{{- end }}
