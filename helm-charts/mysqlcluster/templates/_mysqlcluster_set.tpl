{{- define "mysqlcluster.set" }}
{{- $c := . }}
{{- $v := .root.Values }}
{{- $affinity := deepCopy $v.affinity }}
{{- include "common.antiAffinity" (dict "affinity" $affinity "kind" $v.antiAffinity "selector" (fromJson .selector)) }}
{{- $values := dict }}
{{- include "common.override" (dict "to" $values "from" $v) }}
{{- $_ := set $values "affinity" $affinity }}
{{- $pod := dict }}
{{- include "common.override" (dict "to" $pod "from" $c) }}
{{- $_ := set $pod "root" (dict "Values" $values "Release" $c.root.Release) }}
{{- $_ := set $pod "name" "mysql" }}
---
apiVersion: apps/v1
kind: StatefulSet
{{- include "common.metadata" $c }}
spec:
  replicas: {{ int $v.replicas }}
  revisionHistoryLimit: 5
  serviceName: {{ print $c.name "-headless" | quote }}
  podManagementPolicy: Parallel
  {{- /* Who replaces a pod has to know what its member is: the operator does. */}}
  updateStrategy: {"type": "OnDelete"}
  persistentVolumeClaimRetentionPolicy: {"whenDeleted": "Retain", "whenScaled": "Retain"}
  {{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $v.storage.size)) }}
  {{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
  {{- /* A template of claims cannot change: it has no labels of the user's. */}}
  volumeClaimTemplates: {{ list (dict "apiVersion" "v1" "kind" "PersistentVolumeClaim" "metadata" (dict "name" "data" "labels" (fromJson $c.identity)) "spec" $claim) | toJson }}
  selector:
    matchLabels: {{ $c.selector }}
  template:
{{ include "common.pod" $pod | indent 4 }}
{{- end }}

{{- /* One member may go at a time: the others have what it acknowledged. One alone has nothing to protect. */}}
{{- define "mysqlcluster.disruptionBudget" }}
{{- if gt (max (int .root.Values.replicas) (int .root.Values.members)) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{- include "common.metadata" . }}
spec:
  maxUnavailable: 1
  {{- /* A node can be drained of a pod that is not ready while the others are well. Else the pods stay: they may have the only copies. */}}
  unhealthyPodEvictionPolicy: IfHealthyBudget
  selector:
    matchLabels: {{ .selector }}
{{- end }}
{{- end }}
