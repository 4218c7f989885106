// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Redis is a Redis Cluster. The operator creates a RedisCluster with the name of the
// component, and manages its shards and slots.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || self.kind != 'ThirdParty' || has(self.thirdParty)",fieldPath=".thirdParty",reason=FieldValueRequired,message="kind ThirdParty needs the thirdParty block with the url of the Redis Cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.thirdParty) || !self.thirdParty.url.startsWith('rediss')",fieldPath=".thirdParty.url",message="must be redis://, without TLS: connections to Redis are not encrypted yet"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (self.size == 'custom') == has(self.resources)",fieldPath=".size",message="resources is required with size 'custom' and may not be set with the other sizes"
// +kubebuilder:validation:XValidation:rule="!has(self.name) || self.name.size() <= 44",fieldPath=".name",message="must have at most 44 characters: it becomes a part of the names of Services and pods"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || (has(self.name) ? self.name : 'redis') == (has(oldSelf.name) ? oldSelf.name : 'redis')",fieldPath=".name",message="may not be changed while redis runs in the cluster: under another name redis starts without its data. Set the name back, or remove spec.redis first to start empty"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || (has(self.credentialsSecret) ? self.credentialsSecret : \"\") == (has(oldSelf.credentialsSecret) ? oldSelf.credentialsSecret : \"\")",fieldPath=".credentialsSecret",message="may not be changed while redis runs in the cluster: nodes with different passwords could not replicate from each other"
// +kubebuilder:validation:XValidation:rule="!(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || oldSelf.storage.retention != 'Delete'",fieldPath=".kind",message="may not become 'ThirdParty' while storage.retention is 'Delete': the data would be deleted. Set retention to 'Retain' first, or remove spec.redis"
type Redis struct {
	ObjectName `json:",inline"`

	// kind is Managed (the operator runs the cluster) or ThirdParty (the cluster runs elsewhere; scheduling,
	// labels and annotations then apply to the probe pod). Default: Managed.
	// +kubebuilder:validation:Pattern=`^(Managed|ThirdParty)$`
	// +kubebuilder:example=`Managed`
	// +optional
	// +nullable
	Kind string `json:"kind,omitempty"`

	// replicas is the number of all pods. With 6 or more, each shard has a master and a replica; with an odd number, the first shard
	// has a second replica. With 3 to 5 there are three shards, and some have no replica. 1 is for development. 0 parks the cluster
	// and keeps its data.
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:validation:XValidation:rule="self != 2",message="must not be 2: use 1, 3 or 6"
	// +kubebuilder:example=`12`
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// image of Redis, with its tag. Default: the built-in image.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/redis:7.0.15`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// version of Redis, 6.2 or newer. It is the tag of the built-in image; with image set, it must name the version in
	// that image. An older version is reported, and the operator changes nothing. Default: the version of this
	// operator release.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9]+([._-][A-Za-z0-9]+)*$`
	// +kubebuilder:example=`7.2.5`
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// size of each Redis container is small, medium, large, or custom (the amounts in resources). Default: 100m to 1 CPU
	// and 512Mi to 1Gi of memory.
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size Size `json:"size,omitempty"`

	// resources (ResourceRequirements) are the requests and limits for size custom.
	// +kubebuilder:example=`{limits: {memory: 4Gi}}`
	// +optional
	// +nullable
	Resources *Object `json:"resources,omitempty"`

	// storage is the volume of each pod.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 50Gi}`
	// +optional
	Storage GrowingStorage `json:"storage,omitempty"`

	// config are settings of Redis, as in redis.conf. Most settings are changed while Redis runs; for the
	// others the operator replaces the pods, one shard at a time.
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z][a-z0-9-]*$'))",message="the name of a setting must consist of small letters, digits and '-'"
	// +kubebuilder:example=`{maxmemory-policy: allkeys-lru}`
	// +optional
	// +nullable
	Config map[string]string `json:"config,omitempty"`

	// credentialsSecret names a Secret of this namespace whose key password is the password of the cluster. The
	// password must not change. Default: a Secret that the operator generates and keeps.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`redis-account`
	// +optional
	// +nullable
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// env sets variables of the Redis container. MAXMEMORY is the maximum memory for data.
	// Default: MAXMEMORY is three quarters of the memory limit.
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_.-][A-Za-z0-9_.-]*$'))",message="the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit"
	// +kubebuilder:example=`{MAXMEMORY: 2gb}`
	// +optional
	// +nullable
	Env map[string]string `json:"env,omitempty"`

	// antiAffinity keeps the pods of a shard on different nodes: Soft (if possible) or Hard (otherwise the
	// pod is not scheduled). Default: Soft.
	// +kubebuilder:validation:Pattern=`^(Soft|Hard)$`
	// +kubebuilder:example=`Hard`
	// +optional
	// +nullable
	AntiAffinity string `json:"antiAffinity,omitempty"`

	// monitorImage is the image of a sidecar of Redis that serves metrics on port 9121, such as
	// redis_exporter. Default: none.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`docker.io/oliver006/redis_exporter:v1.74.0`
	// +optional
	// +nullable
	MonitorImage string `json:"monitorImage,omitempty"`

	// backup (ClusterBackup) configures the store and the schedule of backups. A DataBackup makes a backup at any time. Default: no
	// backups.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, schedule: "30 4 * * *"}`
	// +optional
	// +nullable
	Backup *Object `json:"backup,omitempty"`

	// restoreFrom (ClusterRestore) is the backup from which a new cluster is made. It is read once, before the cluster is formed for the first
	// time. Afterwards it has no effect and need not be removed: pods no longer have access to the store. The cluster must have as many shards
	// as the backup.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, backup: latest}`
	// +optional
	// +nullable
	RestoreFrom *Object `json:"restoreFrom,omitempty"`

	// dependsOn names components that must be ready before redis is created or changed.
	// +kubebuilder:example=`[mysql]`
	// +listType=set
	// +optional
	// +nullable
	DependsOn []ComponentName `json:"dependsOn,omitempty"`

	// annotations are additional annotations of the pods.
	// +kubebuilder:example=`{example.com/team: data}`
	// +optional
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`

	// podTemplate (PodTemplateSpec) is merged into the pod template last, for everything that has no field here.
	// +kubebuilder:example=`{spec: {hostAliases: [{ip: "192.0.2.1", hostnames: [cache]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`

	SchedulingFields `json:",inline"`

	// thirdParty has the addresses of redis of kind ThirdParty: all nodes of the cluster, or some of them.
	// +kubebuilder:example=`{url: "redis://10.0.0.1:6379,10.0.0.2:6379"}`
	// +optional
	// +nullable
	ThirdParty *RedisThirdParty `json:"thirdParty,omitempty"`
}

// RedisThirdParty is a Redis Cluster that runs outside the platform. The operator creates an ExternalName
// Service <name>-external for its first address, and a probe pod that runs the check. The component is ready
// while the probe pod is ready.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !(has(self.username) || has(self.password))",message="give either secretRef or username and password, not both"
type RedisThirdParty struct {
	// url has the addresses of all or some nodes of the cluster: redis://host:port,host:port. Default of the
	// ports: 6379.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^rediss?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(,([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)*$`
	// +kubebuilder:example=`redis://10.0.0.1:6379,10.0.0.2:6379`
	URL string `json:"url"`

	// checkCMD is a shell command that the probe pod runs. It must succeed while the cluster
	// works. Default: a connection to one of the addresses.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:example=`nc -z cache.example.com 6379`
	// +optional
	// +nullable
	CheckCMD string `json:"checkCMD,omitempty"`

	// username is the Redis ACL user that services use. Prefer secretRef. Default: the user named default.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:example=`orders`
	// +optional
	// +nullable
	Username string `json:"username,omitempty"`

	// password of the account. Everyone who may read the DataService can read it: prefer secretRef.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:example=`secret`
	// +optional
	// +nullable
	Password string `json:"password,omitempty"`

	// secretRef names a Secret with the key password, and username if the account has a name.
	// +kubebuilder:example=`{name: cache-account}`
	// +optional
	// +nullable
	SecretRef *ObjectReference `json:"secretRef,omitempty"`
}
