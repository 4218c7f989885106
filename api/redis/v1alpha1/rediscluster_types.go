// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// CRD enums reject null, so optional fields without a default use a pattern that lists their values.

// RedisCluster is a Redis Cluster: shards of a master and its replicas that
// together serve 16,384 hash slots. The operator forms and repairs the cluster,
// moves slots when the number of shards changes, and replaces the pods one
// shard at a time.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=rec,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="The pods that are ready and work in the cluster, and the wanted pods"
// +kubebuilder:printcolumn:name="Slots",type=integer,JSONPath=`.status.slots`,description="Hash slots that are served, of 16384"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="What the operator is doing, or what is wrong"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 44 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a letter followed by letters, digits and '-', 44 characters at most: it becomes a part of the names of Services and pods"
type RedisCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the cluster.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{replicas: 6, version: 7.0.15}`
	// +optional
	Spec RedisClusterSpec `json:"spec"`

	// status is the last observed state of the cluster.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Running, ready: 6/6, slots: 16384}`
	// +optional
	Status RedisClusterStatus `json:"status,omitempty"`
}

// RedisClusterList is a list of RedisClusters.
//
// +kubebuilder:object:root=true
type RedisClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedisCluster `json:"items"`
}

// RedisClusterSpec is the desired state of a Redis Cluster. A field that is null counts as not given.
//
// +kubebuilder:validation:XValidation:rule="(has(self.pod) && self.pod.size() > 0 && has(self.pod[0].volumes) && has(self.pod[0].volumes.persistentVolumeClaimName) ? self.pod[0].volumes.persistentVolumeClaimName : \"\") == (has(oldSelf.pod) && oldSelf.pod.size() > 0 && has(oldSelf.pod[0].volumes) && has(oldSelf.pod[0].volumes.persistentVolumeClaimName) ? oldSelf.pod[0].volumes.persistentVolumeClaimName : \"\")",fieldPath=".pod",message="pod[0].volumes.persistentVolumeClaimName may not be changed: the data stays on the volumes that it is on. Create another RedisCluster and move the data"
// +kubebuilder:validation:XValidation:rule="(has(self.pod) && self.pod.size() > 0 && has(self.pod[0].volumes) && has(self.pod[0].volumes.type) && self.pod[0].volumes.type == 'nfs') == (has(oldSelf.pod) && oldSelf.pod.size() > 0 && has(oldSelf.pod[0].volumes) && has(oldSelf.pod[0].volumes.type) && oldSelf.pod[0].volumes.type == 'nfs')",fieldPath=".pod",message="pod[0].volumes.type may not be changed: the data stays on the volumes that it is on. Create another RedisCluster and move the data"
// +kubebuilder:validation:XValidation:rule="(has(self.credentialsSecret) ? self.credentialsSecret : \"\") == (has(oldSelf.credentialsSecret) ? oldSelf.credentialsSecret : \"\")",fieldPath=".credentialsSecret",message="may not be changed: nodes with different passwords could not replicate from each other"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || has(oldSelf.restoreFrom)",fieldPath=".restoreFrom",message="may be given only when the cluster is created: existing data is never replaced. Create another cluster with restoreFrom"
type RedisClusterSpec struct {
	// replicas is the number of all pods. With 6 or more, each shard has a master and a replica, so the number
	// of shards is half of replicas; with an odd number, the first shard has a second replica. With 3 to 5 there
	// are three shards, and only the first ones have a replica. With 1, one pod has all slots, for development.
	// A shard without a replica is unavailable while its pod does not run, and its volume is the only copy of
	// its data. 0 parks the cluster: no pod runs, and the data is kept.
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:validation:XValidation:rule="self != 2",message="must not be 2: use 1 (one pod with all slots, for development), 3 (three masters without a replica) or 6 (three masters with a replica each)"
	// +kubebuilder:example=`12`
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// progressDeadlineSeconds is the time in seconds within which the cluster must match the spec after its
	// creation, a change or a failure. After that, the condition Progressing is False with the reason
	// ProgressDeadlineExceeded, and Degraded is True with the cause. The operator continues its work. Another
	// change of the spec starts the time again. Default: no deadline.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:example=`600`
	// +optional
	// +nullable
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// pause stops the operator from changing anything in Kubernetes or in Redis. The operator still
	// observes the cluster and writes the status.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Pause bool `json:"pause,omitempty"`

	// finalizers defines the fate of the data when the resource is deleted: retain (volumes, password and
	// the record of the cluster are kept, and a RedisCluster of the same name uses them again) or
	// foreground (they are deleted with the resource). The field never deletes the resource itself.
	// Default: retain.
	// +kubebuilder:validation:Pattern=`^(retain|foreground)$`
	// +kubebuilder:example=`foreground`
	// +optional
	// +nullable
	Finalizers string `json:"finalizers,omitempty"`

	// repository of the image, without its tag. A repository that ends with / is a prefix of
	// middlewareImage. Default: docker.io/library/redis.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:-]*$`
	// +kubebuilder:example=`registry.example.com/library/redis`
	// +optional
	// +nullable
	Repository string `json:"repository,omitempty"`

	// version of Redis: 6.2 or newer. It is the tag of the image, unless middlewareImage has a tag. An
	// older version is reported, and the operator changes nothing. Default: 7.0.15.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+([._-][A-Za-z0-9]+)*$`
	// +kubebuilder:example=`7.2.5`
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// updateStrategy configures how slots move to new shards.
	// +kubebuilder:example=`{type: AutoReceive, pipeline: "100"}`
	// +optional
	// +nullable
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// pod configures all pods. The list has one entry.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() <= 1",message="pod must have one entry, which is for all pods"
	// +kubebuilder:example=`[{resources: {limits: {memory: 4Gi}}}]`
	// +listType=atomic
	// +optional
	// +nullable
	Pod []Pod `json:"pod,omitempty"`

	// storage is the volume of each pod. It has no effect if all pods share one claim (volumes of type nfs).
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 50Gi, storageClassName: fast}`
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// config are settings of Redis, as in redis.conf. If Redis can change a setting while it runs, the
	// operator does not restart Redis. For other settings the operator replaces the pods, one shard at
	// a time. A removed setting stays in effect until the server restarts.
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z][a-z0-9-]*$'))",message="the name of a setting must consist of small letters, digits and '-'"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.matches('^(port|bind|bind-source-addr|protected-mode|dir|include|loadmodule|daemonize|supervised|pidfile|logfile|syslog-.*|unixsocket.*|user|aclfile|rename-command|requirepass|masterauth|masteruser|appendonly|appendfilename|appenddirname|dbfilename|databases|replicaof|slaveof|(replica|slave)-announce.*|cluster-(enabled|config-file|port|announce-.*|allow-replica-migration|preferred-endpoint-type|slave-.*|replica-no-failover)|tls-.*|enable-.*-command|enable-debug-.*)$'))",message="a setting that the operator sets itself, such as port, dir, appendonly, requirepass or cluster-enabled, may not be given"
	// +kubebuilder:example=`{maxmemory-policy: allkeys-lru, cluster-node-timeout: "10000"}`
	// +optional
	// +nullable
	Config map[string]Setting `json:"config,omitempty"`

	// size is small, medium or large. It sets the resources of each Redis container, unless pod
	// sets them. Default: 100m to 1 CPU and 512Mi to 1Gi of memory.
	// +kubebuilder:validation:Pattern=`^(small|medium|large)$`
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size string `json:"size,omitempty"`

	// credentialsSecret names a Secret of this namespace whose key password is the password of the cluster. The
	// password must not change while the cluster exists. Default: a Secret that the operator generates and
	// keeps.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`redis-account`
	// +optional
	// +nullable
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// antiAffinity keeps the pods of a shard on different nodes: Soft (if possible) or Hard (otherwise the
	// pod is not scheduled). Default: Soft.
	// +kubebuilder:validation:Pattern=`^(Soft|Hard)$`
	// +kubebuilder:example=`Hard`
	// +optional
	// +nullable
	AntiAffinity string `json:"antiAffinity,omitempty"`

	// topologySpreadConstraints spread the pods over zones. A constraint without a labelSelector applies
	// to the pods of each shard.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:example=`[{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]`
	// +listType=atomic
	// +optional
	// +nullable
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// podTemplate (PodTemplateSpec) is merged into the pod template last, for everything that has no field here.
	// +kubebuilder:example=`{spec: {hostAliases: [{ip: "192.0.2.1", hostnames: [cache]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`

	// backup configures the store and the schedule of backups. A DataBackup makes a backup at any time. Default: no
	// backups.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, schedule: "30 4 * * *"}`
	// +optional
	// +nullable
	Backup *backupv1.ClusterBackup `json:"backup,omitempty"`

	// restoreFrom is the backup from which a new cluster is made. It is read once, before the cluster is formed for the first time. Afterwards
	// it has no effect and need not be removed: pods no longer have access to the store. The cluster must have as many shards as the backup.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, backup: latest}`
	// +optional
	// +nullable
	RestoreFrom *backupv1.ClusterRestore `json:"restoreFrom,omitempty"`

	// networkPolicy limits the peers that may connect to Redis. Only pods of the cluster itself may
	// ever connect to the cluster bus.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{enabled: true}`
	// +optional
	NetworkPolicy NetworkPolicy `json:"networkPolicy,omitempty"`

	// tls is reserved: connections are not encrypted yet.
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || !self.enabled",fieldPath=".enabled",message="must be false: TLS is not supported yet"
	// +kubebuilder:example=`{enabled: false}`
	// +optional
	// +nullable
	TLS *TLS `json:"tls,omitempty"`
}

// Setting is the value of a setting of Redis, as in redis.conf: one line.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\r\n]*$`
type Setting string

// TLS is reserved for encrypted connections.
type TLS struct {
	// enabled must be false.
	// +kubebuilder:example=`false`
	// +optional
	// +nullable
	Enabled bool `json:"enabled,omitempty"`
}

// UpdateStrategy configures how slots move to new shards.
//
// +kubebuilder:validation:XValidation:rule="!has(self.assignStrategies) || self.assignStrategies.size() == 0 || (has(self.type) && self.type == 'AssignReceive')",fieldPath=".assignStrategies",message="may only be set when type is 'AssignReceive'"
type UpdateStrategy struct {
	// type is AutoReceive (slots are spread evenly, and as few as possible move) or AssignReceive (each new
	// shard gets the slots in assignStrategies). Default: AutoReceive.
	// +kubebuilder:validation:Pattern=`^(AutoReceive|AssignReceive)$`
	// +kubebuilder:example=`AssignReceive`
	// +optional
	// +nullable
	Type string `json:"type,omitempty"`

	// pipeline is the number of keys that one MIGRATE command moves: "1" to "1000". Default: "100".
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]{0,2}|1000)$`
	// +kubebuilder:example=`"10"`
	// +optional
	// +nullable
	Pipeline string `json:"pipeline,omitempty"`

	// assignStrategies select the slots of new shards: the first entry is for the first new shard, and so on.
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:example=`[{slots: 1000, fromReplicas: "cache-0-0,cache-1-0"}]`
	// +listType=atomic
	// +optional
	// +nullable
	AssignStrategies []AssignStrategy `json:"assignStrategies,omitempty"`
}

// AssignStrategy selects the slots of one new shard.
type AssignStrategy struct {
	// slots is the number of slots that the shard gets.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16384
	// +kubebuilder:example=`1000`
	Slots int32 `json:"slots"`

	// fromReplicas lists the masters that give the slots: node ids or names of pods, separated by commas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:example=`cache-0-0,cache-1-0`
	FromReplicas string `json:"fromReplicas"`
}

// NetworkPolicy limits the peers that may connect to Redis.
type NetworkPolicy struct {
	// enabled lets only the cluster's own pods, the operator and the peers in allowFrom connect to Redis and to its
	// metrics. While enabled is false, every pod with the password may connect.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// allowFrom lists further peers (NetworkPolicyPeer) that may connect, such as the namespaces of clients.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{namespaceSelector: {matchLabels: {team: data}}}]`
	// +listType=atomic
	// +optional
	// +nullable
	AllowFrom []Object `json:"allowFrom,omitempty"`

	// additionalPorts opens further TCP ports to the admitted peers, such as 15008 of Istio in ambient mode. Only used if enabled
	// is true. Through the port of a mesh, a client can reach every port of the pod, also the cluster bus: see docs/services.md.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(16379 in self)",message="16379 is for the cluster's own pods alone"
	// +kubebuilder:example=`[15008]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalPorts []int32 `json:"additionalPorts,omitempty"`
}
