{{- /* One Service for clients selects the members that are ready. A second one has the names of all pods. */}}
{{- define "etcdcluster.services" }}
{{- $client := dict "name" "client" "port" 2379 "targetPort" 2379 "protocol" "TCP" "appProtocol" "tcp" }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" . }}
spec:
  type: ClusterIP
  selector: {{ .selector }}
  ports:
    - {{ toJson $client }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" (dict "root" .root "name" (print .name "-headless") "labels" .labels) }}
spec:
  type: ClusterIP
  clusterIP: None
  {{- /* Members must find each other before any of them is ready. */}}
  publishNotReadyAddresses: true
  selector: {{ .selector }}
  ports:
    - {{ toJson $client }}
    - {"name": "peer", "appProtocol": "tcp", "port": 2380, "targetPort": 2380, "protocol": "TCP"}
    - {"name": "metrics", "appProtocol": "http", "port": 2381, "targetPort": 2381, "protocol": "TCP"}
{{- end }}

{{- /*
Without TLS, a client of the members' port can act as a member, so only the cluster's own pods may connect. With TLS, the
operator may also connect, because it checks the certificates.
*/}}
{{- define "etcdcluster.networkPolicy" }}
{{- $v := .root.Values }}
{{- $own := dict "podSelector" (dict "matchLabels" (fromJson .selector)) }}
{{- $operator := dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" $v.operatorNamespace)) "podSelector" (dict "matchLabels" $v.operatorLabels) }}
{{- $members := list $own }}
{{- if $v.tls.peerSecret }}{{ $members = append $members $operator }}{{ end }}
{{- $clients := dict "ports" (list (dict "port" 2379 "protocol" "TCP") (dict "port" 2381 "protocol" "TCP") (dict "port" 2382 "protocol" "TCP")) }}
{{- if $v.networkPolicy.enabled }}
{{- $from := list $own $operator }}
{{- if $v.backup }}{{ $from = append $from (dict "podSelector" (dict "matchLabels" (set (fromJson .selector) "app.kubernetes.io/name" (print .component ".backup")))) }}{{ end }}
{{- $_ := set $clients "from" (concat $from $v.networkPolicy.allowFrom) }}
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
    - {{ dict "ports" (list (dict "port" 2380 "protocol" "TCP")) "from" $members | toJson }}
    - {{ toJson $clients }}
    {{- if $v.storage.autoGrow }}
    - {{ dict "ports" (list (dict "port" 6300 "protocol" "TCP")) "from" (list $operator) | toJson }}
    {{- end }}
{{- end }}
