{{- /*
The StatefulSet and the disruption budget of one shard. c is the component, shard the number of the shard, pods its
number of pods.
*/}}
{{- define "rediscluster.shard" }}
{{- $c := .c }}
{{- $v := $c.root.Values }}
{{- $name := printf "%s-%d" $c.name .shard }}
{{- $own := dict "redis.middleware.hc.cn/shard" (toString .shard) }}
{{- $selector := fromJson $c.selector }}
{{- include "common.override" (dict "to" $selector "from" $own) }}
{{- $labels := fromJson $c.labels }}
{{- include "common.override" (dict "to" $labels "from" $own) }}
{{- $identity := fromJson $c.identity }}
{{- include "common.override" (dict "to" $identity "from" $own) }}
{{- $affinity := deepCopy $v.affinity }}
{{- include "rediscluster.antiAffinity" (dict "affinity" $affinity "kind" $v.antiAffinity "selector" $selector) }}
{{- $values := dict }}
{{- include "common.override" (dict "to" $values "from" $v) }}
{{- $_ := set $values "affinity" $affinity }}
{{- $pod := dict }}
{{- include "common.override" (dict "to" $pod "from" $c) }}
{{- $_ := set $pod "root" (dict "Values" $values "Release" $c.root.Release) }}
{{- $_ := set $pod "name" "redis" }}
{{- $_ := set $pod "labels" (toJson $labels) }}
{{- $_ := set $pod "selector" (toJson $selector) }}
{{- with $v.initImage }}
{{- $_ := set $values "initContainers" (list (dict "name" "init" "image" . "imagePullPolicy" $v.imagePullPolicy
      "command" (list "/bin/sh" "/scripts/init.sh")
      "env" (list (dict "name" "POD_NAME" "valueFrom" (get $c.env "POD_NAME")) (dict "name" "SHARED_FOLDER" "value" (get $c.env "SHARED_FOLDER" | default "")))
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "16Mi") "limits" (dict "cpu" "100m" "memory" "64Mi"))
      "securityContext" (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")))
      "volumeMounts" (list $c.data (dict "name" "scripts" "mountPath" "/scripts" "readOnly" true)))) }}
{{- end }}
---
apiVersion: apps/v1
kind: StatefulSet
{{- include "common.metadata" (dict "root" $c.root "name" $name "labels" (toJson $labels)) }}
  {{- if $v.parked }}
  annotations: {{ dict "redis.middleware.hc.cn/pods" (toString .pods) | toJson }}
  {{- end }}
spec:
  replicas: {{ ternary 0 .pods $v.parked }}
  revisionHistoryLimit: 5
  serviceName: {{ print $c.name "-headless" | quote }}
  podManagementPolicy: Parallel
  {{- /* Only the operator replaces pods, because it knows the role of each server. */}}
  updateStrategy: {"type": "OnDelete"}
  {{- if not $v.storage.claim }}
  persistentVolumeClaimRetentionPolicy: {{ dict "whenDeleted" (ternary "Retain" "Delete" $v.storage.retain) "whenScaled" "Retain" | toJson }}
  {{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $v.storage.size)) }}
  {{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
  {{- /* A template of claims is immutable, so it has no labels of the user. */}}
  volumeClaimTemplates: {{ list (dict "apiVersion" "v1" "kind" "PersistentVolumeClaim" "metadata" (dict "name" "data" "labels" $identity) "spec" $claim) | toJson }}
  {{- end }}
  selector:
    matchLabels: {{ toJson $selector }}
  template:
{{ include "common.pod" $pod | indent 4 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{- include "common.metadata" (dict "root" $c.root "name" $name "labels" (toJson $labels)) }}
spec:
  maxUnavailable: 1
  {{- /* A pod that is not ready can always be evicted: it is not a copy that the shard could lose. */}}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{ toJson $selector }}
{{- end }}

{{- /* Adds a rule to an affinity: the pods of a shard run on different nodes. */}}
{{- define "rediscluster.antiAffinity" }}
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
