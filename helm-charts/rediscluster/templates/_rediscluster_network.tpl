{{- /* One Service for clients selects the pods that are ready. A second one has the names of all pods. */}}
{{- define "rediscluster.services" }}
{{- $redis := dict "name" "redis" "port" 6379 "targetPort" 6379 "protocol" "TCP" "appProtocol" "tcp" }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" . }}
spec:
  type: ClusterIP
  selector: {{ .selector }}
  ports:
    - {{ toJson $redis }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" (dict "root" .root "name" (print .name "-headless") "labels" .labels) }}
spec:
  type: ClusterIP
  clusterIP: None
  {{- /* Members must find each other even if the cluster is not healthy. */}}
  publishNotReadyAddresses: true
  selector: {{ .selector }}
  ports:
    - {{ toJson $redis }}
    - {"name": "bus", "appProtocol": "tcp", "port": 16379, "targetPort": 16379, "protocol": "TCP"}
    {{- if .root.Values.monitorImage }}
    - {"name": "metrics", "appProtocol": "http", "port": 9121, "targetPort": 9121, "protocol": "TCP"}
    {{- end }}
{{- end }}

{{- /*
The cluster bus has no password, so any client of it could become a member. Only the cluster's own pods may connect to
it, even without spec.networkPolicy.
*/}}
{{- define "rediscluster.networkPolicy" }}
{{- $v := .root.Values }}
{{- $own := dict "podSelector" (dict "matchLabels" (fromJson .selector)) }}
{{- $operator := dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" $v.operatorNamespace)) "podSelector" (dict "matchLabels" $v.operatorLabels) }}
{{- $clients := dict "ports" (list (dict "port" 6379 "protocol" "TCP")) }}
{{- $metrics := dict "ports" (list (dict "port" 9121 "protocol" "TCP")) }}
{{- if $v.networkPolicy.enabled }}
{{- $from := list $own $operator }}
{{- if $v.backup }}{{ $from = append $from (dict "podSelector" (dict "matchLabels" (set (fromJson .selector) "app.kubernetes.io/name" (print .component ".backup")))) }}{{ end }}
{{- $_ := set $clients "from" (concat $from $v.networkPolicy.allowFrom) }}
{{- range $v.networkPolicy.additionalPorts }}
{{- $_ := set $clients "ports" (append $clients.ports (dict "port" (int .) "protocol" "TCP")) }}
{{- end }}
{{- $_ := set $metrics "from" (concat (list $own) $v.networkPolicy.allowFrom) }}
{{- end }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{- include "common.metadata" . }}
spec:
  podSelector:
    matchLabels: {{ .selector }}
  policyTypes: [Ingress]
  ingress:
    - {{ dict "ports" (list (dict "port" 16379 "protocol" "TCP")) "from" (list $own) | toJson }}
    - {{ toJson $clients }}
    {{- if and $v.storage.autoGrow (not $v.storage.claim) }}
    - {{ dict "ports" (list (dict "port" 6300 "protocol" "TCP")) "from" (list $operator) | toJson }}
    {{- end }}
    {{- if $v.monitorImage }}
    - {{ toJson $metrics }}
    {{- end }}
{{- end }}

{{- /*
The operator writes what it cannot observe into the annotation redis.middleware.hc.cn/record of this ConfigMap: the
nodes that were members, and whether the cluster was ever formed. The ConfigMap belongs to the data, and stays as long
as the data.
*/}}
{{- define "rediscluster.record" }}
---
apiVersion: v1
kind: ConfigMap
{{- include "common.metadata" (dict "root" .root "name" (print .name "-topology") "labels" .labels) }}
  {{- if .root.Values.storage.retain }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
data:
  about: "The operator's record of this Redis Cluster. It belongs to the data: keep it as long as the volumes."
  {{- /* Pods read these keys as files. formed ends all restores; shards is the number of shards that the backup must have. */}}
  {{- if and .root.Values.restoreFrom .root.Values.formed }}
  formed: "true"
  {{- else if .root.Values.restoreFrom }}
  shards: {{ .root.Values.restoreShards | default (len .root.Values.shards) | print | quote }}
  {{- end }}
{{- end }}
