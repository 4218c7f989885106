{{- /*
Backups: CronJobs, so that they go on while nobody looks after the chart. Their pods are the server's image, for the image's
own tools, with the agent's program put beside them. They have what opens the store; the pod that makes backups has the
password of an account that reads, too. The server's pod has nothing of the store. Without a schedule the first CronJob is
suspended, a template for Jobs alone.
*/}}
{{- define "mysql.backup" }}
{{- $v := .root.Values }}
{{- $b := $v.backup }}
{{- $store := fromJson (include "mysql.backup.opens" (dict "component" . "destination" $b.destination "prefix" "")) }}
{{- $account := dict "secretName" ($v.usersSecret | default (print .name "-users")) "defaultMode" 288 "items" (list (dict "key" "d3os_backup" "path" "password")) }}
{{- $command := concat (list "/d3os-agent/agent" "backup" (include "mysql.backup.server" .) "--user=d3os_backup" "--skip-account=d3os_archive"
      (print "--max-lock-wait=" (get $b "maxLockWait" | default "10s"))) $store.args }}
{{- range dig "encryption" "recipients" list $b }}{{ $command = append $command (print "--recipient=" .) }}{{ end }}
{{- include "mysql.backup.cronjob" (dict "component" . "store" $store "name" "backup" "label" .component "schedule" (get $b "schedule")
      "command" $command "env" (list (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-backup/account/password"))
      "mounts" (list (dict "name" "account" "mountPath" "/d3os-backup/account" "readOnly" true))
      "volumes" (list (dict "name" "account" "secret" $account))) }}

{{- $retention := get $b "retention" | default dict }}
{{- $command = concat (list "/d3os-agent/agent" "prune" (printf "--keep=%d" (get $retention "keep" | default 14 | int)) (printf "--at-least=%d" (get $retention "atLeast" | default 3 | int))) $store.args }}
{{- with get $retention "keepFor" }}{{ $command = append $command (print "--keep-for=" .) }}{{ end }}
{{- include "mysql.backup.cronjob" (dict "component" . "store" $store "name" "prune" "label" (print .component "-prune") "schedule" "17 * * * *" "command" $command) }}

{{- /*
Never scheduled: a person makes a Job of it. The agent refuses a volume that holds anything, so it cannot overwrite data.
What opens encrypted backups is a Secret that is there for a restore alone.
*/}}
{{- if ne $v.kind "DaemonSet" }}
{{- $root := dict "secretName" ($v.credentialsSecret | default (print .name "-credentials")) "defaultMode" 288 }}
{{- $env := fromJsonArray (include "mysql.restore.accounts" .) }}
{{- $mounts := list (dict "name" "data" "mountPath" "/d3os-volume") (dict "name" "root" "mountPath" "/d3os-backup/root" "readOnly" true) }}
{{- $volumes := list (dict "name" "data" "persistentVolumeClaim" (dict "claimName" (printf "data-%s-0" .name))) (dict "name" "root" "secret" $root) }}
{{- if dig "encryption" "recipients" list $b }}
{{- $env = append $env (dict "name" "AGENT_IDENTITIES_FILE" "value" "/d3os-backup/identity/identities") }}
{{- $mounts = append $mounts (dict "name" "identity" "mountPath" "/d3os-backup/identity" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" "identity" "secret" (dict "secretName" (print .name "-identity") "defaultMode" 288)) }}
{{- end }}
{{- $command = concat (list "/d3os-agent/agent" "restore" "--backup=latest" "--volume=/d3os-volume") $store.args }}
{{- if include "mysql.pointInTime" $v }}{{ $command = append $command "--to-time=latest" }}{{ end }}
{{- include "mysql.backup.cronjob" (dict "component" . "store" $store "name" "restore" "label" (print .component "-restore") "schedule" ""
      "command" $command "env" $env "mounts" $mounts "volumes" $volumes "memory" "1Gi") }}
{{- end }}
{{- with get $b "verify" }}{{ include "mysql.verify" (dict "component" $ "store" $store "verify" .) }}{{ end }}
{{- if include "mysql.pointInTime" $v }}{{ include "mysql.archive" (dict "component" . "store" $store "pointInTime" $b.pointInTime) }}{{ end }}
{{- end }}

{{- /* Whether the binary log is archived, also where nothing more is said of it: not empty. */}}
{{- define "mysql.pointInTime" -}}
{{- if kindIs "map" (get (.backup | default dict) "pointInTime") }}true{{ end }}
{{- end }}

{{- /* How the agent reaches the server: a headless Service has no port of its own, its name leads to the pod. */}}
{{- define "mysql.backup.server" -}}
{{- $port := first .servicePorts | dig "port" 3306 | int }}
{{- if eq .root.Values.serviceType "Headless" }}{{ $port = .port }}{{ end }}
{{- printf "--server=%s:%d" .name $port }}
{{- end }}

{{- /* Restores the newest backup, and what the archive has beyond it, to a volume that lives as long as the pod. */}}
{{- define "mysql.verify" }}
{{- $v := .component.root.Values }}
{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" (get .verify "size" | default $v.storage.size))) }}
{{- with get .verify "storageClassName" | default $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- $volumes := list (dict "name" "scratch" "ephemeral" (dict "volumeClaimTemplate" (dict "spec" $claim))) }}
{{- $mounts := list (dict "name" "scratch" "mountPath" "/d3os-scratch") }}
{{- $env := list }}
{{- with get .verify "identitySecret" }}
{{- $env = list (dict "name" "AGENT_IDENTITIES_FILE" "value" "/d3os-backup/identity/identities") }}
{{- $mounts = append $mounts (dict "name" "identity" "mountPath" "/d3os-backup/identity" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" "identity" "secret" (dict "secretName" .name "defaultMode" 288)) }}
{{- end }}
{{- $command := concat (list "/d3os-agent/agent" "verify" "--backup=latest" "--scratch=/d3os-scratch") .store.args }}
{{- if include "mysql.pointInTime" $v }}{{ $command = append $command "--to-time=latest" }}{{ end }}
{{- include "mysql.backup.cronjob" (dict "component" .component "store" .store "name" "verify" "label" (print .component.component "-verify") "schedule" .verify.schedule
      "command" $command "env" $env "mounts" $mounts "volumes" $volumes "memory" "1Gi") }}
{{- end }}

{{- /*
What opens a store (destination), as JSON: args, env, mounts and volumes, whose names begin with the prefix.
*/}}
{{- define "mysql.backup.opens" -}}
{{- $c := .component }}
{{- $prefix := .prefix }}
{{- $args := list "--report=/dev/termination-log" (printf "--source=%s/%s/%s" $c.root.Release.Namespace $c.instance $c.component) }}
{{- $env := list }}
{{- $mounts := list }}
{{- $volumes := list }}
{{- with get .destination "claim" }}
{{- $args = append $args "--folder=/d3os-backup/store" }}
{{- $mounts = append $mounts (dict "name" (print $prefix "store") "mountPath" "/d3os-backup/store") }}
{{- $volumes = append $volumes (dict "name" (print $prefix "store") "persistentVolumeClaim" (dict "claimName" .name)) }}
{{- end }}
{{- with get .destination "s3" }}
{{- $folder := get . "prefix" | default (printf "%s/%s/%s" $c.root.Release.Namespace $c.instance $c.component) }}
{{- $args = concat $args (list (print "--s3-endpoint=" .endpoint) (print "--s3-bucket=" .bucket) (print "--s3-prefix=" $folder) (print "--s3-path-style=" (dig "pathStyle" true .))) }}
{{- with get . "region" }}{{ $args = append $args (print "--s3-region=" .) }}{{ end }}
{{- $env = list (dict "name" "AWS_ACCESS_KEY_ID_FILE" "value" "/d3os-backup/s3/accessKey") (dict "name" "AWS_SECRET_ACCESS_KEY_FILE" "value" "/d3os-backup/s3/secretKey") }}
{{- $mounts = append $mounts (dict "name" (print $prefix "s3") "mountPath" "/d3os-backup/s3" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" (print $prefix "s3") "secret" (dict "secretName" .credentialsSecret.name "defaultMode" 288)) }}
{{- with get . "caSecret" }}
{{- $args = append $args "--s3-ca=/d3os-backup/ca/ca.crt" }}
{{- $mounts = append $mounts (dict "name" (print $prefix "ca") "mountPath" "/d3os-backup/ca" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" (print $prefix "ca") "secret" (dict "secretName" .name "defaultMode" 288)) }}
{{- end }}
{{- end }}
{{- toJson (dict "args" $args "env" $env "mounts" $mounts "volumes" $volumes) }}
{{- end }}

{{- /* The passwords that accounts get when a backup is restored: those of the Secret. */}}
{{- define "mysql.restore.accounts" -}}
{{- list (dict "name" "AGENT_ROOT_PASSWORD_FILE" "value" "/d3os-backup/root/root-password")
      (dict "name" "AGENT_ACCOUNT_FILE" "value" "/d3os-backup/root/username")
      (dict "name" "AGENT_ACCOUNT_PASSWORD_FILE" "value" "/d3os-backup/root/password") | toJson }}
{{- end }}

{{- /* A CronJob that runs the agent. */}}
{{- define "mysql.backup.cronjob" }}
{{- $c := .component }}
{{- $b := $c.root.Values.backup }}
{{- $labels := fromJson $c.labels }}
{{- $_ := set $labels "d3os-product.com.d3os/backup" .label }}
{{- $podLabels := fromJson $c.labels }}
{{- $_ := set $podLabels "app.kubernetes.io/name" (print $c.component "-backup") }}
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
      {{- /* What a second try does not help: the agent's exit codes for what a person has to mend. */}}
      podFailurePolicy:
        rules:
          - action: FailJob
            onExitCodes: {containerName: backup, operator: In, values: [2, 3, 10, 21, 22, 23, 30, 31, 32, 33, 34, 43, 45]}
          - action: Ignore
            onPodConditions: [{type: DisruptionTarget, status: "True"}]
      template:
{{ include "mysql.backup.pod" . | indent 8 }}
{{- end }}

{{- /* The template of a pod that runs the agent in the server's image, for the image's own tools and authorities. */}}
{{- define "mysql.backup.pod" }}
{{- $c := .component }}
{{- $v := $c.root.Values }}
{{- $resources := get $v.backup "resources" | default (dict "requests" (dict "cpu" "100m" "memory" "128Mi") "limits" (dict "memory" (get . "memory" | default "512Mi"))) }}
{{- $pod := dict "runAsNonRoot" true "runAsUser" (int $c.user) "runAsGroup" (int $c.user) "fsGroup" (int $c.user) "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- include "common.override" (dict "to" $pod "from" $v.podSecurityContext) }}
{{- $container := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) }}
{{- $mounts := concat (list (dict "name" "agent" "mountPath" "/d3os-agent" "readOnly" true) (dict "name" "tmp" "mountPath" "/tmp")) .store.mounts (get . "mounts" | default list) }}
{{- $volumes := concat (list (dict "name" "agent" "emptyDir" dict) (dict "name" "tmp" "emptyDir" dict)) .store.volumes (get . "volumes" | default list) }}
metadata:
  labels: {{ .podLabels }}
spec:
  {{- with get . "restartPolicy" | default "Never" }}
  restartPolicy: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  {{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "priorityClassName" }}
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
      resources: {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
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
