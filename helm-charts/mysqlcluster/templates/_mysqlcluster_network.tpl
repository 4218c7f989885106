{{- /*
The first Service selects the primary by the name of its pod. So one write changes the primary, and the Service never selects
two pods. The second Service selects pods with a label that the operator sets on members with little lag. The third Service
has the names of all pods.
*/}}
{{- define "mysqlcluster.services" }}
{{- $v := .root.Values }}
{{- $client := dict "name" "mysql" "port" 3306 "targetPort" 3306 "protocol" "TCP" "appProtocol" "tcp" }}
{{- $annotations := get $v.service "annotations" | default dict }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ quote .name }}
  namespace: {{ quote .root.Release.Namespace }}
  labels: {{ .labels }}
  {{- with $annotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  type: {{ get $v.service "type" | default "ClusterIP" }}
  selector: {{ set (fromJson .selector) "statefulset.kubernetes.io/pod-name" (printf "%s-%d" .name (int $v.primary)) | toJson }}
  ports:
    - {{ toJson $client }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" (dict "root" .root "name" (print .name "-read") "labels" .labels) }}
spec:
  type: ClusterIP
  selector: {{ set (fromJson .selector) "d3os-product.com.d3os/mysql-readable" "true" | toJson }}
  ports:
    - {{ toJson $client }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" (dict "root" .root "name" (print .name "-headless") "labels" .labels) }}
spec:
  type: ClusterIP
  clusterIP: None
  {{- /* Members copy from members that are not ready, and the operator queries all members. */}}
  publishNotReadyAddresses: true
  selector: {{ .selector }}
  ports:
    - {{ toJson $client }}
    - {"name": "agent", "appProtocol": "tcp", "port": 3307, "targetPort": 3307, "protocol": "TCP"}
{{- end }}

{{- /*
Agents authenticate clients by certificates. In addition, only the database's pods, the pods of backups and of the archive,
and the operator may connect.
*/}}
{{- define "mysqlcluster.networkPolicy" }}
{{- $v := .root.Values }}
{{- $own := list (dict "podSelector" (dict "matchLabels" (fromJson .selector))) }}
{{- if $v.backup }}{{ $own = append $own (dict "podSelector" (dict "matchLabels" (set (fromJson .selector) "app.kubernetes.io/name" (print .component ".backup")))) }}{{ end }}
{{- if include "mysqlcluster.pointInTime" $v }}{{ $own = append $own (dict "podSelector" (dict "matchLabels" (set (fromJson .selector) "app.kubernetes.io/name" (print .component ".archive")))) }}{{ end }}
{{- $operator := dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" $v.operatorNamespace)) "podSelector" (dict "matchLabels" $v.operatorLabels) }}
{{- $clients := dict "ports" (list (dict "port" 3306 "protocol" "TCP")) }}
{{- if $v.networkPolicy.enabled }}
{{- $_ := set $clients "from" (concat $own $v.networkPolicy.allowFrom) }}
{{- range $v.networkPolicy.additionalPorts }}
{{- $_ := set $clients "ports" (append $clients.ports (dict "port" (int .) "protocol" "TCP")) }}
{{- end }}
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
    - {{ dict "ports" (list (dict "port" 3307 "protocol" "TCP")) "from" (append $own $operator) | toJson }}
    - {{ toJson $clients }}
    {{- if $v.storage.autoGrow }}
    - {{ dict "ports" (list (dict "port" 6300 "protocol" "TCP")) "from" (list $operator) | toJson }}
    {{- end }}
{{- end }}
