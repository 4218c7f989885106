// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
)

// advice returns the user's next steps for a reason of a condition, a pod or a Kubernetes event.
func advice(reason string) []string {
	if text, ok := actions[reason]; ok {
		return []string{text}
	}
	return nil
}

// database is the advice for a database whose volume has changed.
const database = "bind the right volume to the claim, or restore a backup; delete no claim, Secret or ConfigMap yet: docs/mysql.md, The database's volume"

// saveNow is the advice for a claim with data that is being deleted while its pod runs.
const saveNow = "save the data now, while the pod still runs: docs/backup.md; Kubernetes cannot undo the deletion of a claim"

// onBackup is the advice for a failed or late backup, in a condition or in the note of a resource.
const onBackup = "read the message; docs/backup.md, Results, has each reason"

// actions contains an entry for each reason of the condition Degraded of a DataService (docs/status.md), and for frequent faults of pods.
var actions = map[string]string{
	dsv1.ReasonInvalidSpec:          "correct the field that the message names; nothing was changed",
	dsv1.ReasonRenderFailed:         "report it as a bug, with this message and the spec; nothing was changed",
	dsv1.ReasonObjectConflict:       "delete or rename that object, or give the component another `name`",
	dsv1.ReasonNotAdopted:           "if the original operator made the object, 'kubectl dataservice adopt' takes it over; or save the object's data, if any, and delete the object",
	dsv1.ReasonApplyFailed:          "read the message: quota, admission policy, rights or network; the operator tries again by itself",
	dsv1.ReasonCredentialsFailed:    "restore the Secret that the message names, or label it as the message says",
	dsv1.ReasonPruneFailed:          "read the message; the operator tries again by itself",
	dsv1.ReasonContested:            "stop the other writer, take the field out of the spec, or pause the DataService",
	dsv1.ReasonVolumeNotResized:     "set the size back, or allow volume expansion in the storage class",
	health.ReasonVolumeFull:         "remove the obstacle that the message names, or delete data: docs/mysql.md, Storage that grows by itself; the server then starts by itself",
	dsv1.ReasonNewerOperator:        "run that version of the operator or a newer one; docs/operations.md describes how to go back on purpose",
	dsv1.ReasonDataLost:             database,
	health.BeganEmpty:               "stop the services that write, and bind the former volumes or restore a backup; or accept the loss as the message says",
	dsv1.ReasonVolumeReplaced:       database,
	dsv1.ReasonNotPrepared:          "set `mysql.name` back, or create a DataRestore with the new name as `databaseName`; docs/backup.md describes how",
	dsv1.ReasonNotRetained:          "set `mysql.storage.retention` to Retain, or `mysql.name` back",
	dsv1.ReasonLossNotAccepted:      "write the text of the message into `mysql.acceptLoss`, or set `mysql.name` back",
	dsv1.ReasonVolumeUnreadable:     database,
	dsv1.ReasonVolumeBeingDeleted:   saveNow,
	dsv1.ReasonServerVersionRefused: "set `mysql.image` back to the release series that wrote the data; docs/mysql.md, Upgrade",
	"FirstStartBrokenOff":           "if the container ended with OOMKilled, raise `size` or `resources` first; then delete the pod: the server starts over",
	dsv1.ReasonPaused:               "resume the DataService: kubectl dataservice resume NAME",

	"ImagePullBackOff":           "correct `image` or `imagePullSecrets` of the component, or push the image",
	"InvalidImageName":           "correct `image` of the component",
	"CrashLoopBackOff":           "read the log of the container's last run; if it ended with OOMKilled, raise `size` or `resources`",
	"StartError":                 "correct `command` of the component, or use an image that has that program",
	"CreateContainerConfigError": "create the Secret or ConfigMap that the message names, or correct its name or key in the spec",
	"Unschedulable":              "lower `resources`, correct `nodeSelector`, `affinity` or `tolerations`, or add a node",
	"Evicted":                    "free resources of the node, or raise the component's requests",
	"FailedCreate":               "the API server refuses the pods or their claims: correct the quota, service account, priority class or policy that the message names",
	reasonAccount:                "create the service account that the message names, with its Role and RoleBinding: docs/mongodb.md, Before you start, has the command",
	health.ReasonSecretMissing:   "create the Secret that the message names, or correct `mongodb.credentialsSecret`; the operator continues by itself",
	"FailedMount":                "create the Secret, ConfigMap or volume that the message names, or correct its name in the spec",
	"FailedAttachVolume":         "the volume is attached to another node: wait until the pod on that node has ended, or bring that node back: docs/operations.md, A node that is away",
	"ProvisioningFailed":         "correct `mysql.storage.storageClassName`, or look at the provisioner of that class",
	"FailedBinding":              "set `mysql.storage.storageClassName`, or make a storage class the default",
	health.ReasonNotBound:        "look at the provisioner of the claim's storage class: its pods and its log; or set `storageClassName` to another class",
	"NodeLost":                   "repair the node or delete its Node object; a pod with a volume starts elsewhere only after that",
	health.ReasonNodeUnreachable: "bring the node back; if it is off for sure, taint it as the message says: then Kubernetes moves its pods",
	"NodeNotReady":               "repair the node; Kubernetes moves the pods of a Deployment by itself after some minutes",
	"Unhealthy":                  "the probe fails: read the log; raise `probes.startup` if the container merely takes long to start",
	"ProgressDeadlineExceeded":   "read the events and the log of the newest pod; a corrected spec is rolled out at once",
	"Missing":                    "nothing, as a rule: the operator creates the object; but while the DataService is paused, the operator creates nothing",
	health.ReasonConflict:        "delete or rename that object, or give the component another `name`",
	"Forbidden":                  "the API server refuses the object: correct the quota or policy that the message names; the operator tries again by itself",
	"Invalid":                    "correct the field that the message names",
	health.ReasonNoGateway:       "create the Gateway that the message names, together with its class, or correct `httpRoute.gateways`",
	health.ReasonNoIngressClass:  "correct `ingress.className` (`kubectl get ingressclasses` lists the classes), or install the controller; if a controller serves this class without an IngressClass, do nothing",
	"HTTPRoute":                  "correct `httpRoute`, or the listener of the Gateway, as the message says",
	"ThirdParty":                 "check that the url is right and can be reached from the cluster's pods; the check runs again every few seconds",
	health.ReasonTooManyReplicas: "raise `autoscaling.max`, or do nothing: the service runs with the highest number of pods that it may have",
	"HorizontalPodAutoscaler":    "install metrics-server, or give the containers requests of what `autoscaling` measures; until then the number of pods stays as it is",
	health.ReasonNotServed:       "install the CRD that the message names; the operator continues by itself",
	"UnsupportedVersion":         "set `version` to one that the message allows; nothing was changed",
	"SlotsLost":                  "restore the volumes of the shard, or consent to the loss of its data: docs/redis.md describes how",
	"MajorityLost":               "bring back the nodes of the masters; the operator continues by itself",
	"QuorumLost":                 "bring the missing members' nodes and volumes back; docs/etcd.md, When a quorum is lost, or docs/mysqlcluster.md, States, describes the alternatives",
	"MembersLost":                "bring the lost volumes back, restore a backup, or consent to the loss: docs/etcd.md, When a quorum is lost",
	"WaitingForConsent":          "bring a lost volume back, restore a backup, or consent to the loss as the message says: docs/mysqlcluster.md, States",
	"RecordLost":                 "restore the annotation of the ConfigMap NAME-replication, or restore a backup: docs/mysqlcluster.md, States",
	"Diverged":                   "delete no claim: members have different transactions, and a person must choose: docs/mysqlcluster.md, States",
	"PrimaryLost":                "set spec.replication.failover to Automatic, or name another member in spec.replication.primary",
	"SplitBrain":                 "read the message, which names the members of both clusters; delete no claim of them yet",
	"AgentMissing":               "set RELATED_IMAGE_AGENT in the operator's Deployment, as the message says",
	"Inconsistent":               "read the message, which names the nodes that claim the same slots; docs/redis.md describes what is safe",
	"ForeignVolume":              "read the message, which names the pod that the volume was copied from; delete no claim yet: docs/redis.md",
	"DataDamaged":                "read the message, which names the file; delete no claim yet: docs/redis.md",
	"DataOutdated":               "restore the newer volume, or do what the message says; delete no claim yet: docs/redis.md",
	"PasswordRefused":            "correct the key password of the Secret that the message names",
	"ClaimLost":                  "bring the PersistentVolume back; delete no claim yet: docs/mysql.md, The database's volume, describes the steps",
	reasonHeld:                   `exclude that container from the pods of cron jobs (podTemplate, such as the label sidecar.istio.io/inject: "false"), and delete the Job`,
	"RunFailed":                  "read the log of that Job; `kubectl create job NEW --from=cronjob/NAME` runs the cron job again",
	"AgentUnknown":               "set RELATED_IMAGE_AGENT in the operator's Deployment to the operator's own image",
	dsv1.ConditionBackupHealthy:  onBackup,
	"RedisCluster":               onBackup,
	"EtcdCluster":                onBackup,
	"MySQLCluster":               onBackup,
	dsv1.ReasonBackupWarned:      "read each warning in status.backup.warnings, or in the condition Restored: it names what a restore lacks, or lacked",
	dsv1.ConditionRecoverable:    onBackup,
	health.ReasonTooLarge:        "move long texts of `config` and `configFiles` into ConfigMaps that you create, or split the resource; the objects of the spec are applied",
	health.ReasonOperator:        "fix the problem in the message: it affects all DataServices; running pods keep running",
	"Waiting":                    "wait; `kubectl dataservice status -w` shows the progress",

	// Reasons that block a backup or a restore.
	"JobSuspended":   "allow the Job to run: set its spec.suspend to false with `kubectl patch`, or look at the Kueue queue that suspends it",
	"SourceNotFound": "create what the message names, or correct `spec.of`; the operator continues by itself",
	"StepFailed":     "read the message: it names the quota, policy, right or server that refused the step; the operator tries again by itself",
	"PodNotStarting": "correct the claim, Secret, image, quota or node that the message names; then the Job's pod starts by itself",
}
