{{- /*
Renders a suspended CronJob, the template of a Job. The Job checks whether the first member of a MySQLCluster can use the
server's data. It runs on the server's node, and only reads the volume.
*/}}
{{- define "mysql.members" }}
{{- $c := . }}
{{- $labels := fromJson .labels }}
{{- $_ := set $labels "d3os-product.com.d3os/backup" (print .component "-members") }}
{{- /* No name that a user can choose has a dot, so no selector of a service matches these pods. */}}
{{- $podLabels := set (fromJson .labels) "app.kubernetes.io/name" (print .component ".members") }}
{{- $near := dict "podAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list (dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (fromJson .selector))))) }}
{{- $command := list "/d3os-agent/agent" "guard" "--members" "--volume=/d3os-volume" "--data=mysql" "--record=/d3os-record" "--report=/dev/termination-log"
      (printf "--claim=data-%s-0" .name) (printf "--record-name=%s-data" .name) }}
{{- $volumes := list (dict "name" "data" "persistentVolumeClaim" (dict "claimName" (printf "data-%s-0" .name) "readOnly" true)) (dict "name" "record" "configMap" (dict "name" (print .name "-data"))) }}
{{- $mounts := list (dict "name" "data" "mountPath" "/d3os-volume" "readOnly" true) (dict "name" "record" "mountPath" "/d3os-record" "readOnly" true) }}
---
apiVersion: batch/v1
kind: CronJob
{{- include "common.metadata" (dict "root" .root "name" (print .name "-members") "labels" (toJson $labels)) }}
spec:
  schedule: "@yearly"
  suspend: true
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 1
  jobTemplate:
    metadata:
      labels: {{ toJson $podLabels }}
    spec:
      backoffLimit: 3
      podFailurePolicy:
        rules:
          - action: FailJob
            onExitCodes: {containerName: members, operator: In, values: [2, 3]}
          - action: Ignore
            onPodConditions: [{type: DisruptionTarget, status: "True"}]
      template:
{{ include "common.backup.pod" (dict "component" $c "store" (dict "env" list "mounts" list "volumes" list) "container" "members" "podLabels" (toJson $podLabels) "affinity" $near
      "command" $command "mounts" $mounts "volumes" $volumes) | indent 8 }}
{{- end }}
