{{- /*
Renders CronJobs that make, delete, restore and check backups. The pod that makes backups also has the password of an account
that only reads.
*/}}
{{- define "mysql.backup" }}
{{- $v := .root.Values }}
{{- $like := fromJson (include "mysql.likewise" (dict "component" .)) }}
{{- $b := $v.backup }}
{{- $store := fromJson (include "common.backup.opens" (dict "component" . "destination" $b.destination "prefix" "")) }}
{{- $account := dict "secretName" ($v.usersSecret | default (print .name "-users")) "defaultMode" 288 "items" (list (dict "key" "d3os_backup" "path" "password")) }}
{{- $command := concat (list "/d3os-agent/agent" "backup" (include "mysql.backup.server" .) "--user=d3os_backup" "--skip-account=d3os_archive"
      (print "--max-lock-wait=" (get $b "maxLockWait" | default "10s"))) $store.args (include "common.backup.recipients" . | fromJsonArray) }}
{{- $job := dict "component" . "store" $store "name" "backup" "label" .component "schedule" (get $b "schedule")
      "command" $command "env" (append $like.env (dict "name" "AGENT_PASSWORD_FILE" "value" "/d3os-backup/account/password"))
      "mounts" (list (dict "name" "account" "mountPath" "/d3os-backup/account" "readOnly" true))
      "volumes" (list (dict "name" "account" "secret" $account)) }}
{{- /* A server in the pod copies the files to a volume that lives as long as the pod. */}}
{{- if eq (get $b "method" | default "") "Files" }}
{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" $v.storage.size)) }}
{{- with $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- $_ := set $job "command" (concat $command (list "--scratch=/d3os-scratch") $like.args) }}
{{- $_ := set $job "mounts" (concat $job.mounts $like.mounts (list (dict "name" "scratch" "mountPath" "/d3os-scratch"))) }}
{{- $_ := set $job "volumes" (concat $job.volumes $like.volumes (list (dict "name" "scratch" "ephemeral" (dict "volumeClaimTemplate" (dict "spec" $claim))))) }}
{{- $_ := set $job "memory" "1Gi" }}
{{- end }}
{{- include "common.backup.cronjob" $job }}

{{- include "common.backup.prune" (dict "component" . "store" $store) }}

{{- /*
This CronJob is never scheduled: a person creates a Job from it. The agent refuses a volume that is not empty, so a restore
cannot overwrite data. The Secret with the private key for encrypted backups only needs to exist during a restore.
*/}}
{{- if ne $v.kind "DaemonSet" }}
{{- $root := dict "secretName" ($v.credentialsSecret | default (print .name "-credentials")) "defaultMode" 288 }}
{{- $env := concat $like.env (fromJsonArray (include "mysql.restore.accounts" .)) }}
{{- $mounts := concat $like.mounts (list (dict "name" "data" "mountPath" "/d3os-volume") (dict "name" "root" "mountPath" "/d3os-backup/root" "readOnly" true)) }}
{{- $volumes := concat $like.volumes (list (dict "name" "data" "persistentVolumeClaim" (dict "claimName" (printf "data-%s-0" .name))) (dict "name" "root" "secret" $root)) }}
{{- if dig "encryption" "recipients" list $b }}
{{- $env = append $env (dict "name" "AGENT_IDENTITIES_FILE" "value" "/d3os-backup/identity/identities") }}
{{- $mounts = append $mounts (dict "name" "identity" "mountPath" "/d3os-backup/identity" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" "identity" "secret" (dict "secretName" (print .name "-identity") "defaultMode" 288)) }}
{{- end }}
{{- $command = concat (list "/d3os-agent/agent" "restore" "--backup=latest" "--volume=/d3os-volume") $store.args $like.args }}
{{- if include "mysql.pointInTime" $v }}{{ $command = append $command "--to-time=latest" }}{{ end }}
{{- include "common.backup.cronjob" (dict "component" . "store" $store "name" "restore" "label" (print .component "-restore") "schedule" ""
      "command" $command "env" $env "mounts" $mounts "volumes" $volumes "memory" "1Gi") }}
{{- end }}
{{- with get $b "verify" }}{{ include "mysql.verify" (dict "component" $ "store" $store "verify" .) }}{{ end }}
{{- if include "mysql.pointInTime" $v }}{{ include "mysql.archive" (dict "component" . "store" $store "pointInTime" $b.pointInTime) }}{{ end }}
{{- end }}

{{- /* Returns true if the binary log is archived, also with the default settings; otherwise an empty text. */}}
{{- define "mysql.pointInTime" -}}
{{- if kindIs "map" (get (.backup | default dict) "pointInTime") }}true{{ end }}
{{- end }}

{{- /* Returns the argument with the server's address. A headless Service maps no port: its name resolves to the pod. */}}
{{- define "mysql.backup.server" -}}
{{- $port := first .servicePorts | dig "port" 3306 | int }}
{{- if eq .root.Values.serviceType "Headless" }}{{ $port = .port }}{{ end }}
{{- printf "--server=%s:%d" .name $port }}
{{- end }}

{{- /* Renders a CronJob that restores the newest backup and the later archive to a volume that lives as long as the pod. */}}
{{- define "mysql.verify" }}
{{- $v := .component.root.Values }}
{{- $claim := dict "accessModes" (list "ReadWriteOnce") "resources" (dict "requests" (dict "storage" (get .verify "size" | default $v.storage.size))) }}
{{- with get .verify "storageClassName" | default $v.storage.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- $like := fromJson (include "mysql.likewise" (dict "component" .component)) }}
{{- $volumes := append $like.volumes (dict "name" "scratch" "ephemeral" (dict "volumeClaimTemplate" (dict "spec" $claim))) }}
{{- $mounts := append $like.mounts (dict "name" "scratch" "mountPath" "/d3os-scratch") }}
{{- $env := $like.env }}
{{- with get .verify "identitySecret" }}
{{- $env = append $env (dict "name" "AGENT_IDENTITIES_FILE" "value" "/d3os-backup/identity/identities") }}
{{- $mounts = append $mounts (dict "name" "identity" "mountPath" "/d3os-backup/identity" "readOnly" true) }}
{{- $volumes = append $volumes (dict "name" "identity" "secret" (dict "secretName" .name "defaultMode" 288)) }}
{{- end }}
{{- $command := concat (list "/d3os-agent/agent" "verify" "--backup=latest" "--scratch=/d3os-scratch") .store.args $like.args }}
{{- if include "mysql.pointInTime" $v }}{{ $command = append $command "--to-time=latest" }}{{ end }}
{{- include "common.backup.cronjob" (dict "component" .component "store" .store "name" "verify" "label" (print .component.component "-verify") "schedule" .verify.schedule
      "command" $command "env" $env "mounts" $mounts "volumes" $volumes "memory" "1Gi") }}
{{- end }}

{{- /* Returns, as JSON, variables that make a restore set the passwords of the Secret. */}}
{{- define "mysql.restore.accounts" -}}
{{- list (dict "name" "AGENT_ROOT_PASSWORD_FILE" "value" "/d3os-backup/root/root-password")
      (dict "name" "AGENT_ACCOUNT_FILE" "value" "/d3os-backup/root/username")
      (dict "name" "AGENT_ACCOUNT_PASSWORD_FILE" "value" "/d3os-backup/root/password") | toJson }}
{{- end }}
