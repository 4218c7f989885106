{{- define "etcdcluster.set" }}
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
{{- $_ := set $pod "name" "etcd" }}
---
apiVersion: apps/v1
kind: StatefulSet
{{- include "common.metadata" $c }}
spec:
  replicas: {{ int $v.replicas }}
  revisionHistoryLimit: 5
  serviceName: {{ print $c.name "-headless" | quote }}
  podManagementPolicy: Parallel
  {{- /* Only the operator replaces pods, because it knows the state of each member. */}}
  updateStrategy: {"type": "OnDelete"}
  persistentVolumeClaimRetentionPolicy: {"whenDeleted": "Retain", "whenScaled": "Retain"}
  {{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $v.storage.size)) }}
  {{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
  {{- /* A template of claims is immutable, so it has no labels of the user. */}}
  volumeClaimTemplates: {{ list (dict "apiVersion" "v1" "kind" "PersistentVolumeClaim" "metadata" (dict "name" "data" "labels" (fromJson $c.identity)) "spec" $claim) | toJson }}
  selector:
    matchLabels: {{ $c.selector }}
  template:
{{ include "common.pod" $pod | indent 4 }}
{{- end }}

{{- /*
Protects a quorum of the wanted or the existing members, whichever number is larger. A single member has no quorum to
protect.
*/}}
{{- define "etcdcluster.disruptionBudget" }}
{{- $members := max (int .root.Values.replicas) (int .root.Values.members) }}
{{- if gt $members 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{- include "common.metadata" . }}
spec:
  minAvailable: {{ add (div $members 2) 1 }}
  {{- /*
  While the other pods are a quorum, a pod that is not ready can be evicted. Without a quorum, pods stay, because they
  may be about to elect a leader.
  */}}
  unhealthyPodEvictionPolicy: IfHealthyBudget
  selector:
    matchLabels: {{ .selector }}
{{- end }}
{{- end }}
