// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Etcd is an etcd cluster. The operator creates an EtcdCluster with the name of the component, and manages its
// members. The data outlives the DataService.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || self.kind != 'ThirdParty' || has(self.thirdParty)",fieldPath=".thirdParty",reason=FieldValueRequired,message="kind ThirdParty needs the thirdParty block with the url of the etcd cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (self.size == 'custom') == has(self.resources)",fieldPath=".size",message="resources is required with size 'custom' and may not be set with the other sizes"
// +kubebuilder:validation:XValidation:rule="!has(self.name) || self.name.size() <= 44",fieldPath=".name",message="must have at most 44 characters: it becomes a part of the names of Services and pods"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || !has(self.storage.retention) || self.storage.retention != 'Delete'",fieldPath=".storage.retention",message="must be 'Retain': the operator never deletes the data of etcd. Delete the volume claims yourself when you need them no more"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || (has(self.name) ? self.name : 'etcd') == (has(oldSelf.name) ? oldSelf.name : 'etcd')",fieldPath=".name",message="may not be changed while etcd runs in the cluster: under another name etcd starts without its data. Set the name back, or remove spec.etcd first to start empty"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || (has(self.tls) ? self.tls.mode : 'Off') == (has(oldSelf.tls) ? oldSelf.tls.mode : 'Off') || has(self.replicas) && self.replicas == 0 && has(oldSelf.replicas) && oldSelf.replicas == 0",fieldPath=".tls",message="mode may be changed only while replicas is 0: members with different modes cannot talk to each other. Between Off and the others it may be changed only before the cluster was formed: restore a backup into a new one"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(self.image) || !self.image.matches(':v?[0-9]+[.][0-9]+[.][0-9]+([-_.+][^/:@]*)?(@.*)?$') || self.image.find(':v?[0-9]+[.][0-9]+[.][0-9]+([-_.+][^/:@]*)?(@.*)?$').find('[0-9]+[.][0-9]+[.][0-9]+') == self.version.find('^[0-9]+[.][0-9]+[.][0-9]+')",fieldPath=".image",message="the tag must have the version that the field version names: make them agree, or give the image without a tag"
type Etcd struct {
	ObjectName `json:",inline"`

	// kind is Managed (the operator runs the cluster) or ThirdParty (the cluster runs elsewhere; scheduling,
	// labels and annotations then apply to the probe pod). Default: Managed.
	// +kubebuilder:validation:Pattern=`^(Managed|ThirdParty)$`
	// +kubebuilder:example=`Managed`
	// +optional
	// +nullable
	Kind string `json:"kind,omitempty"`

	// replicas is the number of members that vote: 0 to 9. 0 parks the cluster: no pod runs, and the data is kept.
	// If the number is even, one more member runs. If replicas is not set, a HorizontalPodAutoscaler or `kubectl
	// scale` may set the number in the EtcdCluster. Default: 3 for a new cluster; a running cluster keeps its
	// number.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:example=`5`
	// +optional
	// +nullable
	Replicas *int32 `json:"replicas,omitempty"`

	// image of etcd. An image with a tag or a digest must contain the etcd version in the field version. An image with
	// neither gets the tag v<version>. Default: the built-in image.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/etcd`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// version of etcd, 3.4.0 or newer: an older version is refused. An upgrade passes one minor version at a time.
	// Default: the version of this operator release.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^3\.([4-9]|[1-9][0-9]+)\.[0-9]+([-+][0-9A-Za-z.-]+)?$`
	// +kubebuilder:example=`3.6.16`
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// size of each etcd container is small, medium, large, or custom (the amounts in resources). Default: 100m to 1 CPU
	// and 256Mi to 1Gi of memory.
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size Size `json:"size,omitempty"`

	// resources (ResourceRequirements) are the requests and limits for size custom.
	// +kubebuilder:example=`{limits: {memory: 4Gi}}`
	// +optional
	// +nullable
	Resources *Object `json:"resources,omitempty"`

	// storage is the volume of each pod. Its retention is Retain.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 20Gi}`
	// +optional
	Storage GrowingStorage `json:"storage,omitempty"`

	// config are flags of etcd, without the dashes before their names. A change replaces the pods one by one.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z][a-z0-9-]*$'))",message="the name of a flag must consist of small letters, digits and '-', without dashes before it"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.matches('^(name|config-file|data-dir|wal-dir|listen-.*|advertise-.*|initial-.*|force-new-cluster.*|discovery.*|proxy.*|gateway.*|strict-reconfig-check|(experimental-)?max-learners|auto-compaction-.*|unsafe-.*|(experimental-)?peer-skip-client-san-verification|logger|version|help|enable-v2|v2-deprecation|.*cert-file|.*key-file|.*ca-file|.*client-cert-auth|auto-tls|peer-auto-tls|.*crl-file|.*cert-allowed-.*|self-signed-cert-validity|socket-.*|auth-token)$'))",message="a flag that the operator sets itself, such as data-dir, initial-cluster, listen-client-urls or cert-file, may not be given; auto-compaction is maintenance.compaction"
	// +kubebuilder:example=`{quota-backend-bytes: "8589934592"}`
	// +optional
	// +nullable
	Config map[string]EtcdFlag `json:"config,omitempty"`

	// tls configures the encryption of connections, between members and from clients. Default: connections are not encrypted.
	// +kubebuilder:example=`{mode: Auto}`
	// +optional
	// +nullable
	TLS *EtcdTLS `json:"tls,omitempty"`

	// antiAffinity keeps the members on different nodes: Soft (if possible) or Hard (otherwise the pod is
	// not scheduled). Default: Soft.
	// +kubebuilder:validation:Pattern=`^(Soft|Hard)$`
	// +kubebuilder:example=`Hard`
	// +optional
	// +nullable
	AntiAffinity string `json:"antiAffinity,omitempty"`

	// recovery consents to continue with the data of one member after a quorum was lost permanently.
	// +kubebuilder:example=`{from: Best, token: "1"}`
	// +optional
	// +nullable
	Recovery *EtcdRecovery `json:"recovery,omitempty"`

	// backup (ClusterBackup) configures the store and the schedule of backups. A DataBackup makes a backup at any time. Default: no
	// backups.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, schedule: "30 4 * * *"}`
	// +optional
	// +nullable
	Backup *Object `json:"backup,omitempty"`

	// restoreFrom (ClusterRestore) is the backup from which a new cluster is made. It is read once, before the cluster is formed for the
	// first time. Afterwards it has no effect and need not be removed: pods no longer have access to the store.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, backup: latest}`
	// +optional
	// +nullable
	RestoreFrom *Object `json:"restoreFrom,omitempty"`

	// dependsOn names components that must be ready before etcd is created or changed.
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
	// +kubebuilder:example=`{spec: {hostAliases: [{ip: "192.0.2.1", hostnames: [store]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`

	SchedulingFields `json:",inline"`

	// thirdParty has the addresses of etcd of kind ThirdParty: all members of the cluster, or some of them.
	// +kubebuilder:example=`{url: "https://10.0.0.1:2379,10.0.0.2:2379", tlsSecret: etcd-client}`
	// +optional
	// +nullable
	ThirdParty *EtcdThirdParty `json:"thirdParty,omitempty"`
}

// EtcdFlag is the value of a flag of etcd: one line.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\r\n]*$`
type EtcdFlag string

// EtcdTLS configures the encryption of etcd's connections.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Secrets' ? (has(self.serverSecret) && has(self.peerSecret) && has(self.clientSecret)) : (!has(self.serverSecret) && !has(self.peerSecret) && !has(self.clientSecret))",message="serverSecret, peerSecret and clientSecret must be given when mode is 'Secrets', and may not be given otherwise"
type EtcdTLS struct {
	// mode is Off, Auto (the operator makes and renews the certificates) or Secrets (you provide Secrets with the
	// certificates, each with tls.crt, tls.key and ca.crt).
	// +kubebuilder:validation:Pattern=`^(Off|Auto|Secrets)$`
	// +kubebuilder:example=`Secrets`
	Mode string `json:"mode"`

	// additionalNames are names and addresses for the certificate of the server in mode Auto, in addition to
	// those of the Services and pods: the address of a load balancer, or a wildcard such as *.etcd.example.com. A
	// change takes effect without a restart.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`
	// +kubebuilder:example=`[etcd.example.com, 192.0.2.10]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalNames []string `json:"additionalNames,omitempty"`

	// rotation is any text. A new text makes the operator replace both certificate authorities of mode Auto, one
	// pod at a time, in three steps: members and clients trust the old and the new authorities; the new
	// authorities sign all certificates; the old authorities are removed. The operator also does this after two
	// thirds of the lifetime of the authorities.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`2026-01-01`
	// +optional
	// +nullable
	Rotation string `json:"rotation,omitempty"`

	// serverSecret names the Secret with the certificate of the server, and the authority of the clients'
	// certificates.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`etcd-server`
	// +optional
	// +nullable
	ServerSecret string `json:"serverSecret,omitempty"`

	// peerSecret names the Secret with the certificate for connections between members.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`etcd-peer`
	// +optional
	// +nullable
	PeerSecret string `json:"peerSecret,omitempty"`

	// clientSecret names the Secret with the certificate of clients: the operator, and services that name etcd
	// in dependsOn.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`etcd-client`
	// +optional
	// +nullable
	ClientSecret string `json:"clientSecret,omitempty"`
}

// EtcdRecovery consents to continue with the data of one member of etcd. Writes that this member does not have are
// lost.
type EtcdRecovery struct {
	// from is the pod whose data is used, Best (the operator uses the newest data that it can read) or Empty (no
	// data is left: start again with an empty cluster).
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(Best|Empty|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	// +kubebuilder:example=`Best`
	From string `json:"from"`

	// token is any text. The operator recovers once for each new text, and only while a quorum is lost.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`2026-01-01`
	Token string `json:"token"`
}

// EtcdThirdParty is an etcd cluster that runs outside the platform. The operator creates an ExternalName Service
// <name>-external for its first address, and a probe pod that runs the check. The component is ready while the probe pod
// is ready.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tlsSecret) || self.url.startsWith('https://')",fieldPath=".tlsSecret",message="may be given only with a url that begins with https://"
type EtcdThirdParty struct {
	// url has the addresses of all or some members of the cluster: http://host:port,host:port, or https://. Default
	// of the ports: 2379.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(,([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)*$`
	// +kubebuilder:example=`https://10.0.0.1:2379,10.0.0.2:2379`
	URL string `json:"url"`

	// checkCMD is a shell command that the probe pod runs. It must succeed while the cluster
	// works. Default: a connection to one of the addresses.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:example=`nc -z etcd.example.com 2379`
	// +optional
	// +nullable
	CheckCMD string `json:"checkCMD,omitempty"`

	// tlsSecret names a Secret with tls.crt, tls.key and ca.crt that services use to connect. Default: none.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`etcd-client`
	// +optional
	// +nullable
	TLSSecret string `json:"tlsSecret,omitempty"`
}
