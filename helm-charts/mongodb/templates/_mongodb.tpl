{{- define "mongodb" }}
{{- $v := .Values }}
{{- $c := dict "root" . "name" .Release.Name "component" "mongodb" "port" 27017
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "1Gi") "limits" (dict "cpu" "1000m" "memory" "1Gi")) }}
{{- include "common.init" $c }}
{{- $roles := list (dict "name" "readWrite" "db" $v.database) (dict "name" "dbAdmin" "db" $v.database) }}
---
apiVersion: mongodbcommunity.mongodb.com/v1
kind: MongoDBCommunity
{{- include "common.metadata" $c }}
spec:
  type: ReplicaSet
  members: {{ int $v.replicas }}
  version: {{ quote $v.version }}
  security:
    authentication:
      modes: [SCRAM]
      {{- /* The CRD has the same default. */}}
      ignoreUnknownUsers: true
  users:
    {{- /*
    MongoDB's operator names the Secret with the connection string after the resource, the database and the user.
    */}}
    - name: {{ quote $v.username }}
      db: {{ quote $v.database }}
      passwordSecretRef:
        name: {{ required "credentialsSecret must be given" $v.credentialsSecret | quote }}
        key: password
      roles: {{ toJson $roles }}
      scramCredentialsSecretName: {{ quote $c.name }}
  {{- with $v.config }}
  additionalMongodConfig: {{ toJson . }}
  {{- end }}
  statefulSet:
    spec:
      {{- $claim := dict "accessModes" (list "ReadWriteOnce") }}
      {{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
      volumeClaimTemplates:
        - {{ include "mongodb.claim" (dict "name" "data-volume" "claim" $claim "size" $v.storage.size) }}
        - {{ include "mongodb.claim" (dict "name" "logs-volume" "claim" $claim "size" "2G") }}
      template: {{ include "mongodb.pod" $c }}
{{- include "mongodb.disruptionBudget" $c }}
{{- $_ := set $c "peers" true }}
{{- include "common.networkPolicy" $c }}
{{- end }}

{{- define "mongodb.claim" -}}
{{- $spec := deepCopy .claim }}
{{- $_ := set $spec "resources" (dict "requests" (dict "storage" .size)) }}
{{- dict "metadata" (dict "name" .name) "spec" $spec | toJson }}
{{- end }}

{{- /*
Returns, as JSON, the part of a pod template that MongoDB's operator merges into its pods: the labels that select the pods,
the resources of mongod, and the placement.
*/}}
{{- define "mongodb.pod" -}}
{{- $v := .root.Values }}
{{- $affinity := deepCopy $v.affinity }}
{{- include "mongodb.antiAffinity" (dict "affinity" $affinity "kind" $v.antiAffinity "selector" (fromJson .selector)) }}
{{- $mongod := dict "name" "mongod" "resources" (include "common.resources" . | fromJson) }}
{{- with $v.image }}{{ $_ := set $mongod "image" . }}{{ end }}
{{- $spec := dict "affinity" $affinity "containers" (list $mongod) }}
{{- range $name := list "nodeSelector" "tolerations" "topologySpreadConstraints" "priorityClassName" "imagePullSecrets" }}
{{- with get $v $name }}{{ $_ := set $spec $name . }}{{ end }}
{{- end }}
{{- $metadata := dict "labels" (fromJson .labels) }}
{{- with $v.annotations }}{{ $_ := set $metadata "annotations" . }}{{ end }}
{{- dict "metadata" $metadata "spec" $spec | toJson }}
{{- end }}

{{- /* Protects a majority of the members. A single member has no majority to protect. */}}
{{- define "mongodb.disruptionBudget" }}
{{- $members := int .root.Values.replicas }}
{{- if gt $members 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{- include "common.metadata" . }}
spec:
  minAvailable: {{ add (div $members 2) 1 }}
  unhealthyPodEvictionPolicy: IfHealthyBudget
  selector:
    matchLabels: {{ .selector }}
{{- end }}
{{- end }}

{{- /* Adds a rule to an affinity: the members run on different nodes. */}}
{{- define "mongodb.antiAffinity" }}
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
