{{- /*
CronJobs make the backups, so backups continue even if no operator manages the chart. Their pods run the agent in the
server's image, because the agent needs the tools and CAs of that image. Only these pods have access to the store; the
pods of the server do not.

common.backup.opens returns, as JSON, what a container needs to access a store (destination): args, env, mounts and
volumes. The names of the volumes begin with the prefix. folder is the default folder on a claim.
*/}}
{{- define "common.backup.opens" -}}
{{- $c := .component }}
{{- $prefix := .prefix }}
{{- $args := list "--report=/dev/termination-log" (printf "--source=%s/%s/%s" $c.root.Release.Namespace $c.instance $c.component) }}
{{- if not .prefix }}{{ with $c.root.Values.writer }}{{ $args = append $args (print "--writer=" .) }}{{ end }}{{ end }}
{{- $env := list }}
{{- $mounts := list }}
{{- $volumes := list }}
{{- with get .destination "claim" }}
{{- $args = append $args "--folder=/d3os-backup/store" }}
{{- $mount := dict "name" (print $prefix "store") "mountPath" "/d3os-backup/store" }}
{{- with get . "folder" | default (get $ "folder") }}{{ $_ := set $mount "subPath" . }}{{ end }}
{{- $mounts = append $mounts $mount }}
{{- $volumes = append $volumes (dict "name" (print $prefix "store") "persistentVolumeClaim" (dict "claimName" .name)) }}
{{- end }}
{{- with get .destination "s3" }}
{{- $folder := get . "prefix" | default (printf "%s/%s/%s" $c.root.Release.Namespace $c.instance $c.component) }}
{{- $args = concat $args (list (print "--s3-endpoint=" .endpoint) (print "--s3-bucket=" .bucket) (print "--s3-prefix=" $folder) (print "--s3-path-style=" (dig "pathStyle" true .))) }}
{{- with get . "region" }}{{ $args = append $args (print "--s3-region=" .) }}{{ end }}
{{- with get . "encryption" }}
{{- $args = append $args (print "--s3-sse=" (ternary "aws:kms" "AES256" (eq (get . "algorithm" | default "AES256") "KMS"))) }}
{{- with get . "key" }}{{ $args = append $args (print "--s3-sse-key=" .) }}{{ end }}
{{- end }}
{{- if get . "credentialsSecret" }}
{{- $env = list (dict "name" "AWS_ACCESS_KEY_ID_FILE" "value" "/d3os-backup/s3/accessKey") (dict "name" "AWS_SECRET_ACCESS_KEY_FILE" "value" "/d3os-backup/s3/secretKey")
      (dict "name" "AWS_SESSION_TOKEN_FILE" "value" "/d3os-backup/s3/sessionToken") }}
{{- $mounts = append $mounts (dict "name" (print $prefix "s3") "mountPath" "/d3os-backup/s3" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" (print $prefix "s3") "secret" (dict "secretName" .credentialsSecret.name "defaultMode" 288)) }}
{{- else }}
{{- $args = append $args "--s3-role" }}
{{- end }}
{{- with get . "caSecret" }}
{{- $args = append $args "--s3-ca=/d3os-backup/ca/ca.crt" }}
{{- $mounts = append $mounts (dict "name" (print $prefix "ca") "mountPath" "/d3os-backup/ca" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" (print $prefix "ca") "secret" (dict "secretName" .name "defaultMode" 288)) }}
{{- end }}
{{- end }}
{{- toJson (dict "args" $args "env" $env "mounts" $mounts "volumes" $volumes "claim" (dig "claim" "name" "" .destination)) }}
{{- end }}

{{- /*
common.backup.reads returns the same for the store in the value restoreFrom, from which a new database is restored. Its
args also name the backup.
*/}}
{{- define "common.backup.reads" -}}
{{- $from := .component.root.Values.restoreFrom }}
{{- $all := fromJson (include "common.backup.opens" (dict "component" .component "destination" $from.destination "prefix" "d3os-restore-" "folder" (get . "folder"))) }}
{{- $_ := set $all "args" (prepend $all.args (print "--backup=" (get $from "backup" | default "latest"))) }}
{{- with get $from "identitySecret" }}
{{- $_ := set $all "env" (append $all.env (dict "name" "AGENT_IDENTITIES_FILE" "value" "/d3os-backup/identity/identities")) }}
{{- $_ := set $all "mounts" (append $all.mounts (dict "name" "d3os-restore-identity" "mountPath" "/d3os-backup/identity" "readOnly" true)) }}
{{- $_ := set $all "volumes" (append $all.volumes (dict "name" "d3os-restore-identity" "secret" (dict "secretName" .name "defaultMode" 288))) }}
{{- end }}
{{- /*
The pods keep these volumes after the restore. The Secrets are optional, so that a pod starts even if a Secret was
deleted later.
*/}}
{{- range $volume := $all.volumes }}
{{- with get $volume "secret" }}{{ $_ := set . "optional" true }}{{ end }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{- /* Renders a CronJob that deletes the backups that the retention no longer keeps. */}}
{{- define "common.backup.prune" }}
{{- $retention := get .component.root.Values.backup "retention" | default dict }}
{{- $command := concat (list "/d3os-agent/agent" "prune" (printf "--keep=%d" (get $retention "keep" | default 14 | int)) (printf "--at-least=%d" (get $retention "atLeast" | default 3 | int))) .store.args }}
{{- with get $retention "keepFor" }}{{ $command = append $command (print "--keep-for=" .) }}{{ end }}
{{- include "common.backup.cronjob" (dict "component" .component "store" .store "name" "prune" "label" (print .component.component "-prune") "schedule" "17 * * * *" "command" $command) }}
{{- end }}

{{- /* Returns, as JSON, arguments with the public keys for which backups are encrypted. */}}
{{- define "common.backup.recipients" -}}
{{- $args := list }}
{{- range dig "encryption" "recipients" list .root.Values.backup }}{{ $args = append $args (print "--recipient=" .) }}{{ end }}
{{- toJson $args }}
{{- end }}

{{- /* Renders a CronJob that runs the agent. Without a schedule it is suspended, and is only a template for Jobs. */}}
{{- define "common.backup.cronjob" }}
{{- $c := .component }}
{{- $b := $c.root.Values.backup }}
{{- $labels := fromJson $c.labels }}
{{- $_ := set $labels "d3os-product.com.d3os/backup" .label }}
{{- $podLabels := fromJson $c.labels }}
{{- /* No name that a user can choose has a dot, so no selector of a service matches these pods. */}}
{{- $_ := set $podLabels "app.kubernetes.io/name" (print $c.component ".backup") }}
{{- $_ := set $podLabels "d3os-product.com.d3os/backup" .label }}
{{- $_ := set . "container" "backup" }}
{{- $_ := set . "podLabels" (toJson $podLabels) }}
---
apiVersion: batch/v1
kind: CronJob
{{- include "common.metadata" (dict "root" $c.root "name" (print $c.name "-" .name) "labels" (toJson $labels)) }}
spec:
  schedule: {{ .schedule | default "@yearly" | quote }}
  {{- with get $b "timeZone" }}
  timeZone: {{ quote . }}
  {{- end }}
  suspend: {{ empty .schedule }}
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 3600
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 3
  jobTemplate:
    metadata:
      labels: {{ omit (fromJson .podLabels) "d3os-product.com.d3os/backup" | toJson }}
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 86400
      {{- /* A retry cannot help after these exit codes of the agent: a person must solve the problem. */}}
      podFailurePolicy:
        rules:
          - action: FailJob
            onExitCodes: {containerName: backup, operator: In, values: [2, 3, 10, 21, 22, 23, 30, 31, 32, 33, 34, 43, 45]}
          - action: Ignore
            onPodConditions: [{type: DisruptionTarget, status: "True"}]
      template:
{{ include "common.backup.pod" . | indent 8 }}
{{- end }}

{{- /*
Renders the template of a pod that runs the agent in the server's image, because the agent needs the tools and CAs of
that image.
*/}}
{{- define "common.backup.pod" }}
{{- $c := .component }}
{{- $v := $c.root.Values }}
{{- /*
Limits are at most ten times the requests, so that common quotas and LimitRanges accept these pods unchanged.
*/}}
{{- $resources := get ($v.backup | default dict) "resources" | default (dict "requests" (dict "cpu" "100m" "memory" "128Mi") "limits" (dict "cpu" "1000m" "memory" (get . "memory" | default "512Mi"))) }}
{{- $pod := dict "runAsNonRoot" true "runAsUser" (int $c.user) "runAsGroup" (int $c.user) "fsGroup" (int $c.user) "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- include "common.override" (dict "to" $pod "from" $v.podSecurityContext) }}
{{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- $mounts := concat (list (dict "name" "agent" "mountPath" "/d3os-agent" "readOnly" true) (dict "name" "tmp" "mountPath" "/tmp")) .store.mounts (get . "mounts" | default list) }}
{{- $volumes := concat (list (dict "name" "agent" "emptyDir" dict) (dict "name" "tmp" "emptyDir" dict)) .store.volumes (get . "volumes" | default list) }}
{{- /*
If the store is a claim, all these pods mount it. Some claims can be mounted on only one node at a time, so the pods run
on one node. The pods of verify and restore only prefer that node, because their other volume may be bound to another
node.
*/}}
{{- $labels := fromJson .podLabels }}
{{- $affinity := get . "affinity" | default dict }}
{{- with get .store "claim" }}
{{- $selector := dict "d3os-product.com.d3os/store" (sha256sum . | trunc 16) }}
{{- $labels = merge $labels $selector }}
{{- $term := dict "labelSelector" (dict "matchLabels" $selector) "topologyKey" "kubernetes.io/hostname" }}
{{- $affinity = dict "podAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) }}
{{- if has (get $ "name") (list "verify" "restore") }}
{{- $affinity = dict "podAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) }}
{{- end }}
{{- end }}
metadata:
  labels: {{ toJson $labels }}
spec:
  {{- with $affinity }}
  affinity: {{ toJson . }}
  {{- end }}
  {{- with get . "restartPolicy" | default "Never" }}
  restartPolicy: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  {{- with get $v "imagePullSecrets" }}
  imagePullSecrets: {{ uniq . | toJson }}
  {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "priorityClassName" }}
  {{- with get $v $field }}
  {{ $field }}: {{ toJson . }}
  {{- end }}
  {{- end }}
  securityContext: {{ toJson $pod }}
  initContainers:
    - name: agent
      image: {{ quote $v.agentImage }}
      imagePullPolicy: IfNotPresent
      command: ["/agent", "install", "/d3os-agent/agent"]
      resources: {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
      securityContext: {{ toJson $container }}
      volumeMounts: [{"name": "agent", "mountPath": "/d3os-agent"}]
  containers:
    - name: {{ .container }}
      image: {{ quote $c.image }}
      imagePullPolicy: {{ quote $v.imagePullPolicy }}
      command: {{ toJson .command }}
      {{- with concat .store.env (get . "env" | default list) }}
      env: {{ toJson . }}
      {{- end }}
      {{- range $field := list "ports" "readinessProbe" }}
      {{- with get $ $field }}
      {{ $field }}: {{ toJson . }}
      {{- end }}
      {{- end }}
      resources: {{ toJson $resources }}
      securityContext: {{ toJson $container }}
      volumeMounts:
        {{- range $mounts }}
        - {{ toJson . }}
        {{- end }}
  volumes:
    {{- range $volumes }}
    - {{ toJson . }}
    {{- end }}
{{- end }}
