{{- define "mysql" }}
{{- $v := .Values }}
{{- $store := $v.storage }}
{{- $c := dict "root" . "name" "mysql-dataservice" "component" "mysql" "appProtocol" "tcp" "port" $v.port "image" $v.image "user" 999
      "readOnly" true "writable" (list "/tmp" "/var/run/mysqld") "strategy" (dict "type" "Recreate")
      "resources" (dict "requests" (dict "cpu" "100m" "memory" "1500Mi") "limits" (dict "cpu" "1000m" "memory" "2000Mi")) }}
{{- include "common.init" $c }}
{{- $secret := $v.credentialsSecret | default (print $c.name "-credentials") }}
{{- $_ := set $c "env" (dict
      "MYSQL_ROOT_PASSWORD" (dict "secretKeyRef" (dict "name" $secret "key" "root-password"))
      "MYSQL_USER" (dict "secretKeyRef" (dict "name" $secret "key" "username"))
      "MYSQL_PASSWORD" (dict "secretKeyRef" (dict "name" $secret "key" "password"))
      "MYSQL_ROOT_HOST" "localhost") }}

{{- $cnf := .Files.Get "files/my.cnf" | replace "@port@" (toString $c.listen) | replace "@bufferPool@" (get $v.bufferPools $v.size | default "768M") }}
{{- /* MySQL 8.0 and later refuse to start with an SQL mode that they lack. */}}
{{- if ge (regexFind "^[0-9]+" $v.serverVersion | int) 8 }}{{ $cnf = replace "NO_AUTO_CREATE_USER," "" $cnf }}{{ end }}
{{- /* MySQL 8 and 9 have a binary log by default. */}}
{{- $binlog := has (regexFind "^[0-9]+" $v.serverVersion) (list "8" "9") | ternary (.Files.Get "files/triggers.cnf") "" }}
{{- /* Restores to any point in time need the binary log. */}}
{{- if include "mysql.pointInTime" $v }}
{{- $days := get $v.backup.pointInTime "daysOnServer" | default 3 | int }}
{{- $expiry := ge (regexFind "^[0-9]+" $v.serverVersion | int) 8 | ternary (printf "binlog_expire_logs_seconds = %d" (mul $days 86400)) (printf "expire_logs_days = %d" $days) }}
{{- $binlog = print (.Files.Get "files/binlog.cnf") (.Files.Get "files/triggers.cnf") $expiry "\n" }}
{{- end }}
{{- $cnf = replace "@binlog@\n" $binlog $cnf }}
{{- $folder := "/etc/mysql/conf.d" }}
{{- $whole := $folder }}
{{- /* A file of the user cannot be mounted into a folder that is a volume itself. */}}
{{- range $v.configFiles }}{{ if hasPrefix (print $folder "/") .path }}{{ $whole = "" }}{{ end }}{{ end }}
{{- $_ := set $c "files" (list (dict "mountPath" (print $folder "/my.cnf") "dir" $whole "file" "my.cnf" "text" $cnf
      "suffix" "" "volume" "mysql-ds-cnf" "settings" "mysqld" "head" "")) }}
{{- include "common.files" $c }}
{{- $_ := set $c "configured" (dict "mounts" (get $c "mounts" | default list) "volumes" (get $c "volumes" | default list)) }}
{{- $schemas := .Files.Get "files/00-schemas.sh" | replace "@schemas@" (join " " $v.schemas) }}
{{- include "common.configMap" (dict "component" $c "suffix" "-init" "data" (dict "00-schemas.sh" $schemas)) }}
{{- $init := list (dict "configMap" (dict "name" (print $c.name "-init"))) }}
{{- range $v.initConfigMaps }}{{ $init = append $init (dict "configMap" (dict "name" .)) }}{{ end }}
{{- $volumes := append $c.volumes (dict "name" "mysql-init" "projected" (dict "sources" $init)) }}
{{- /* The mount has a subPath, because mysqld refuses to initialise a folder that has lost+found. */}}
{{- $_ := set $c "mounts" (concat $c.mounts (list
      (dict "name" "mysql-init" "mountPath" "/docker-entrypoint-initdb.d" "readOnly" true)
      (dict "name" "data" "mountPath" "/var/lib/mysql" "subPath" "mysql"))) }}
{{- /* The checksum omits the init scripts: a server with data never reads them again. */}}
{{- $annotations := get $c "podAnnotations" | default dict }}

{{- $claim := dict "accessModes" (list $store.accessMode) "resources" (dict "requests" (dict "storage" $store.size)) }}
{{- with $store.storageClassName }}{{ $_ := set $claim "storageClassName" . }}{{ end }}
{{- if eq $v.kind "StatefulSet" }}
{{- /* A template of claims is immutable, so it has no labels of the user. */}}
{{- $_ := set $c "claims" (list (dict "apiVersion" "v1" "kind" "PersistentVolumeClaim" "metadata" (dict "name" "data" "labels" (fromJson $c.identity)) "spec" $claim)) }}
{{- $_ := set $c "claimRetention" (dict "whenDeleted" (ternary "Retain" "Delete" $store.retain) "whenScaled" "Retain") }}
{{- else if eq $v.kind "Deployment" }}
{{- /* The claim has the name of the claim of a StatefulSet's first pod, so a change of the kind keeps the data. */}}
{{- $name := printf "data-%s-0" $c.name }}
{{- $volumes = append $volumes (dict "name" "data" "persistentVolumeClaim" (dict "claimName" $name)) }}
---
apiVersion: v1
kind: PersistentVolumeClaim
{{- include "common.metadata" (dict "root" . "name" $name "labels" $c.labels) }}
  {{- if $store.retain }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
spec: {{ toJson $claim }}
{{- else }}
{{- $volumes = append $volumes (dict "name" "data" "emptyDir" dict) }}
{{- $_ := set $annotations "d3os-product.com.d3os/data" "ephemeral" }}
{{- $_ := set $c "serviceAnnotations" (dict "d3os-product.com.d3os/data" "ephemeral") }}
{{- end }}
{{- $_ := set $c "volumes" $volumes }}
{{- $_ := set $c "podAnnotations" $annotations }}
{{- if or $v.databases $v.users $v.backup }}{{ include "mysql.accounts" $c }}{{ end }}
{{- if and $v.agentImage (ne $v.kind "DaemonSet") }}{{ include "mysql.guard" $c }}{{ if $v.restoreFrom }}{{ include "mysql.birth" $c }}{{ else if $v.importFrom }}{{ include "mysql.import" $c }}{{ end }}{{ end }}
{{- if and (or $v.restoreFrom $v.importFrom) (not $v.agentImage) (not $v.managedBy) }}{{ fail "restoreFrom and importFrom need the agentImage: the database would start empty" }}{{ end }}
{{- if and $store.autoGrow $v.agentImage (ne $v.kind "DaemonSet") }}{{ include "common.volumeReport" $c }}{{ $_ := set $c "openPorts" (append (get $c "openPorts" | default list) 6300) }}{{ end }}
{{- include "common.service" $c }}
{{- include "common.workload" $c }}
{{- if $v.backup }}{{ $_ := set $c "callers" (list (print $c.component ".archive") (print $c.component ".backup")) }}{{ end }}
{{- include "common.networkPolicy" $c }}
{{- if and $v.backup $v.agentImage }}{{ include "mysql.backup" $c }}{{ end }}
{{- if and $v.membersCheck $v.agentImage (eq $v.kind "StatefulSet") }}{{ include "mysql.members" $c }}{{ end }}
{{- end }}

{{- /*
Adds a container that runs next to the server and creates databases and users. Its inputs are mounted as folders and are not
part of the checksum, so the container gets a change without a restart of the server.
*/}}
{{- define "mysql.accounts" }}
{{- $c := . }}
{{- $v := .root.Values }}
{{- $list := "" }}
{{- range $v.databases }}{{ $list = print $list "database " . "\n" }}{{ end }}
{{- range $v.users }}{{ $list = print $list "user " (prepend (get . "databases" | default list) .name | join " ") "\n" }}{{ end }}
{{- if $v.backup }}{{ $list = print $list "backup d3os_backup" (eq (get $v.backup "method" | default "") "Files" | ternary " files" "") "\n" }}{{ end }}
{{- if include "mysql.pointInTime" $v }}{{ $list = print $list "archive d3os_archive\n" }}{{ end }}
{{- include "common.configMap" (dict "component" . "suffix" "-accounts" "data" (dict "list" $list "accounts.sh" (.root.Files.Get "files/accounts.sh"))) }}
{{- $env := list }}
{{- range $name := list "MYSQL_ROOT_PASSWORD" "MYSQL_USER" }}
{{- $variable := dict "name" . "valueFrom" (get $c.env .) }}
{{- with get $v.env $name }}{{ $variable = dict "name" $name "value" . }}{{ end }}
{{- range get $v "envs" | default list }}{{ if eq .name $name }}{{ $variable = . }}{{ end }}{{ end }}
{{- $env = append $env $variable }}
{{- end }}
{{- $socket := "/var/run/mysqld" }}
{{- $_ := set . "containers" (list (dict "name" "accounts" "image" .image "imagePullPolicy" $v.imagePullPolicy "env" $env
      "command" (list "/bin/sh" "/accounts/accounts.sh" "/accounts/list" "/accounts-passwords" (print $socket "/mysqld.sock") "/tmp/ready")
      "resources" (dict "requests" (dict "cpu" "10m" "memory" "32Mi") "limits" (dict "cpu" "100m" "memory" "64Mi"))
      "readinessProbe" (dict "exec" (dict "command" (list "test" "-e" "/tmp/ready")) "periodSeconds" 5 "failureThreshold" 1)
      "securityContext" (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")))
      "volumeMounts" (list
        (dict "name" "accounts" "mountPath" "/accounts" "readOnly" true)
        (dict "name" "accounts-passwords" "mountPath" "/accounts-passwords" "readOnly" true)
        (dict "name" "accounts-tmp" "mountPath" "/tmp")
        (dict "name" "var-run-mysqld" "mountPath" $socket "readOnly" true)))) }}
{{- /* The volume is optional and always mounted, so that adding the first user does not restart the server. */}}
{{- $_ := set . "volumes" (concat .volumes (list
      (dict "name" "accounts" "configMap" (dict "name" (print .name "-accounts")))
      (dict "name" "accounts-passwords" "secret" (dict "secretName" ($v.usersSecret | default (print .name "-users")) "optional" true))
      (dict "name" "accounts-tmp" "emptyDir" dict))) }}
{{- end }}

{{- /*
Returns, as JSON, args, env, mounts and volumes for an agent that starts a temporary server. With them, this server has the
files, the options and the time zone of the database. The agent overrides some options to exclude clients and to protect
the data.
*/}}
{{- define "mysql.likewise" -}}
{{- $v := .component.root.Values }}
{{- $all := dict "args" list "env" list "mounts" .component.configured.mounts "volumes" .component.configured.volumes }}
{{- with $v.timeZone }}{{ $_ := set $all "env" (list (dict "name" "TZ" "value" .)) }}{{ end }}
{{- with get ($v.env | default dict) "TZ" }}{{ $_ := set $all "env" (list (dict "name" "TZ" (kindIs "string" . | ternary "value" "valueFrom") .)) }}{{ end }}
{{- range get $v "envs" | default list }}{{ if eq .name "TZ" }}{{ $_ := set $all "env" (list .) }}{{ end }}{{ end }}
{{- range $i, $arg := get $v "args" | default list }}
{{- if hasPrefix "--defaults-file=" . }}{{ $_ := set $all "args" (append $all.args (print "--server-config=" (trimPrefix "--defaults-file=" .))) }}
{{- else if or $i (hasPrefix "-" .) }}{{ $_ := set $all "args" (append $all.args (print "--server-option=" .)) }}{{ end }}
{{- end }}
{{- toJson $all }}
{{- end }}

{{- /*
Adds the guard, an init container that decides whether the server may start: the volume must be the same as before, and the
data must be of the server's release series. The guard runs the program of the agent in the server's image, because it
reads the version of that image. The operator's record is optional, because a new database has none. The record is mounted
as a folder, so a change of the record restarts nothing.
*/}}
{{- define "mysql.guard" }}
{{- $v := .root.Values }}
{{- $record := print .name "-data" }}
{{- $resources := dict "requests" (dict "cpu" "50m" "memory" "32Mi") "limits" (dict "cpu" "500m" "memory" "256Mi") }}
{{- $command := list "/d3os-agent/agent" "guard" "--volume=/d3os-volume" "--data=mysql" "--record=/d3os-record" "--report=/dev/termination-log"
      (printf "--claim=data-%s-0" .name) (print "--record-name=" $record) }}
{{- with $v.serverVersion }}{{ $command = append $command (print "--declared=" .) }}{{ end }}
{{- $_ := set . "initContainers" (list
      (dict "name" "d3os-agent" "image" $v.agentImage "imagePullPolicy" "IfNotPresent" "command" (list "/agent" "install" "/d3os-agent/agent")
        "resources" $resources "volumeMounts" (list (dict "name" "d3os-agent" "mountPath" "/d3os-agent")))
      (dict "name" "d3os-guard" "image" .image "imagePullPolicy" $v.imagePullPolicy "command" $command "resources" $resources
        "volumeMounts" (list
          (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)
          (dict "name" "d3os-record" "mountPath" "/d3os-record" "readOnly" true)
          (dict "name" "data" "mountPath" "/d3os-volume")))) }}
{{- /*
Limits the server's open files before the entrypoint runs: a pod has no field for the limit, and MySQL 5.7 reserves
memory for each possible file.
*/}}
{{- $_ := set . "mounts" (append .mounts (dict "name" "d3os-agent" "mountPath" "/d3os-agent" "readOnly" true)) }}
{{- $_ := set .env "BASH_ENV" "/d3os-agent/limits.sh" }}
{{- $_ := set . "volumes" (concat .volumes (list
      (dict "name" "d3os-agent" "emptyDir" dict)
      (dict "name" "d3os-record" "configMap" (dict "name" $record "optional" true)))) }}
{{- end }}
