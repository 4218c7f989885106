// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// CRD enums reject null, so optional fields without a default use a pattern that lists their values.

// EtcdCluster is an etcd cluster: voting members, each with its own volume. The
// operator forms and repairs the cluster, replaces lost members, adds and removes
// members one at a time, and upgrades one minor version at a time.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=etcd,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="The healthy voters, and the wanted voters"
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="The lowest version of etcd that a member runs"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="What the operator is doing, or what is wrong"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status.clusterID) || (self.spec.tls.mode == 'Off') == (oldSelf.spec.tls.mode == 'Off')",fieldPath=".spec.tls",message="mode may not be changed between 'Off' and the others once the cluster was formed: restore a backup into a new EtcdCluster (restoreFrom)"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 44 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a letter followed by letters, digits and '-', 44 characters at most: it becomes a part of the names of Services and pods"
type EtcdCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the cluster.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{replicas: 3, storage: 10Gi}`
	// +optional
	Spec EtcdClusterSpec `json:"spec"`

	// status is the last observed state of the cluster.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Running, ready: 3/3, leader: my-etcd-cluster-0}`
	// +optional
	Status EtcdClusterStatus `json:"status,omitempty"`
}

// EtcdClusterList is a list of EtcdClusters.
//
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCluster `json:"items"`
}

// EtcdClusterSpec is the desired state of an etcd cluster. A field that is null counts as not given.
//
// +kubebuilder:validation:XValidation:rule="(has(self.storageClassName) ? self.storageClassName : \"\") == (has(oldSelf.storageClassName) ? oldSelf.storageClassName : \"\")",fieldPath=".storageClassName",message="may not be changed: a volume stays in its class"
// +kubebuilder:validation:XValidation:rule="(has(self.tls) && has(self.tls.mode) ? self.tls.mode : \"Off\") == (has(oldSelf.tls) && has(oldSelf.tls.mode) ? oldSelf.tls.mode : \"Off\") || has(self.replicas) && self.replicas == 0 && has(oldSelf.replicas) && oldSelf.replicas == 0",fieldPath=".tls",message="mode may be changed only while replicas is 0: members with different modes cannot talk to each other. Between Off and the others it may be changed only before the cluster was formed: restore a backup into a new one"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(self.image) || !self.image.matches(':v?[0-9]+[.][0-9]+[.][0-9]+([-_.+][^/:@]*)?(@.*)?$') || self.image.find(':v?[0-9]+[.][0-9]+[.][0-9]+([-_.+][^/:@]*)?(@.*)?$').find('[0-9]+[.][0-9]+[.][0-9]+') == self.version.find('^[0-9]+[.][0-9]+[.][0-9]+')",fieldPath=".image",message="the tag must have the version that the field version names: make them agree, or give the image without a tag"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || has(oldSelf.restoreFrom)",fieldPath=".restoreFrom",message="may be given only when the cluster is created: existing data is never replaced. Create another cluster with restoreFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.storageAutoGrow) || !has(self.storage) || !isQuantity(string(self.storage)) || !isQuantity(string(self.storageAutoGrow.limit)) || !quantity(string(self.storageAutoGrow.limit)).isLessThan(quantity(string(self.storage)))",fieldPath=".storageAutoGrow",message="limit must not be below storage: a volume never shrinks"
type EtcdClusterSpec struct {
	// replicas is the number of members that vote: 0 to 9. 0 parks the cluster: no pod runs, and the data is kept. If the
	// number is even, one more member runs, because an even number of members survives only as many losses as the next
	// lower odd number. A HorizontalPodAutoscaler may set replicas.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	// +kubebuilder:example=`5`
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

	// storage is the size of each member's volume. It can grow if the storage class can expand volumes; it may
	// not shrink.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="storage must be a quantity above zero, such as 10Gi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || !quantity(string(self)).isLessThan(quantity(string(oldSelf)))",message="storage may not shrink: volumes cannot"
	// +kubebuilder:example=`20Gi`
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`

	// storageAutoGrow grows nearly full volumes, even while the server cannot run. The storage class must allow
	// expansion. A container in each pod reports the use of its volume. Default: volumes grow only when storage grows.
	// +kubebuilder:example=`{limit: 100Gi}`
	// +optional
	// +nullable
	StorageAutoGrow *backupv1.AutoGrow `json:"storageAutoGrow,omitempty"`

	// storageClassName is the storage class of the volumes. Default: the cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`fast`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`

	// version of etcd, 3.4.0 or newer. An older version is refused. The tag of the image is v and the version, unless
	// image has a tag. An upgrade passes one minor version at a time. Default: 3.6.16.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^3\.([4-9]|[1-9][0-9]+)\.[0-9]+([-+][0-9A-Za-z.-]+)?$`
	// +kubebuilder:example=`3.6.16`
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// registry replaces the host of the default image: REGISTRY/etcd-development/etcd. Default: gcr.io.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:-]*$`
	// +kubebuilder:example=`registry.example.com`
	// +optional
	// +nullable
	Registry string `json:"registry,omitempty"`

	// image of etcd. An image with a tag or a digest must contain the etcd version in the field version. An image with
	// neither gets the tag v<version>. Default: gcr.io/etcd-development/etcd.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/etcd`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// imagePullSecrets are the credentials for pulling images.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:example=`[{name: registry}]`
	// +listType=atomic
	// +optional
	// +nullable
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// size is small, medium or large. It sets the resources of each etcd container, unless resources is
	// set. Default: 100m to 1 CPU and 256Mi to 1Gi of memory.
	// +kubebuilder:validation:Pattern=`^(small|medium|large)$`
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size string `json:"size,omitempty"`

	// resources are the requests and limits of the etcd container. Default: the resources of size.
	// +kubebuilder:example=`{requests: {memory: 2Gi}, limits: {memory: 4Gi}}`
	// +optional
	// +nullable
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// antiAffinity keeps the members on different nodes: Soft (if possible) or Hard (otherwise the pod is
	// not scheduled). Default: Soft.
	// +kubebuilder:validation:Pattern=`^(Soft|Hard)$`
	// +kubebuilder:example=`Hard`
	// +optional
	// +nullable
	AntiAffinity string `json:"antiAffinity,omitempty"`

	// affinity has the rules for the nodes that the pods prefer or need. The operator adds the rule of antiAffinity.
	// +kubebuilder:example=`{nodeAffinity: {}}`
	// +optional
	// +nullable
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// nodeSelector lists the labels that a node must have to run the pods.
	// +kubebuilder:example=`{disk: ssd}`
	// +optional
	// +nullable
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations list the node taints that the pods tolerate.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{key: dedicated, operator: Exists}]`
	// +listType=atomic
	// +optional
	// +nullable
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topologySpreadConstraints spread the pods over zones. A constraint without a labelSelector applies to the cluster's pods.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:example=`[{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]`
	// +listType=atomic
	// +optional
	// +nullable
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// podTemplate (PodTemplateSpec) is merged into the pod template last, for everything that has no field here.
	// +kubebuilder:example=`{spec: {priorityClassName: high}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`

	// config are flags of etcd, without the dashes before their names. A change replaces the pods one by one.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z][a-z0-9-]*$'))",message="the name of a flag must consist of small letters, digits and '-', without dashes before it"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.matches('^(name|config-file|data-dir|wal-dir|listen-.*|advertise-.*|initial-.*|force-new-cluster.*|discovery.*|proxy.*|gateway.*|strict-reconfig-check|(experimental-)?max-learners|auto-compaction-.*|unsafe-.*|(experimental-)?peer-skip-client-san-verification|logger|version|help|enable-v2|v2-deprecation|.*cert-file|.*key-file|.*ca-file|.*client-cert-auth|auto-tls|peer-auto-tls|.*crl-file|.*cert-allowed-.*|self-signed-cert-validity|socket-.*|auth-token)$'))",message="a flag that the operator sets itself, such as data-dir, initial-cluster, listen-client-urls or cert-file, may not be given; auto-compaction is maintenance.compaction"
	// +kubebuilder:example=`{quota-backend-bytes: "8589934592", heartbeat-interval: "100"}`
	// +optional
	// +nullable
	Config map[string]Flag `json:"config,omitempty"`

	// tls configures the encryption of connections, between members and from clients.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{mode: Auto}`
	// +optional
	TLS TLS `json:"tls,omitempty"`

	// maintenance configures compaction and defragmentation.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{compaction: {mode: periodic, retention: 1h}, defragThreshold: 45%}`
	// +optional
	Maintenance Maintenance `json:"maintenance,omitempty"`

	// recovery consents to continue with the data of one member after a quorum was lost permanently. Writes that
	// this member does not have are lost. Without recovery the operator waits until enough members answer again.
	// +kubebuilder:example=`{from: Best, token: "1"}`
	// +optional
	// +nullable
	Recovery *Recovery `json:"recovery,omitempty"`

	// backup configures the store and the schedule of backups. A DataBackup makes a backup at any time. Default: no
	// backups.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, schedule: "30 4 * * *"}`
	// +optional
	// +nullable
	Backup *backupv1.ClusterBackup `json:"backup,omitempty"`

	// restoreFrom is the backup from which a new cluster is made. It is read once, before the cluster is formed for the
	// first time. Afterwards it has no effect and need not be removed: pods no longer have access to the store.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, backup: latest}`
	// +optional
	// +nullable
	RestoreFrom *backupv1.ClusterRestore `json:"restoreFrom,omitempty"`

	// replacement configures when the operator replaces a crashing member by an empty member, which copies the data from the others.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{after: 10m}`
	// +optional
	Replacement Replacement `json:"replacement,omitempty"`

	// networkPolicy limits the peers that may connect as clients. Only pods of the cluster itself may ever
	// connect as members.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{enabled: true}`
	// +optional
	NetworkPolicy NetworkPolicy `json:"networkPolicy,omitempty"`

	// paused stops the operator from changing anything in Kubernetes or in etcd. The operator still
	// observes the cluster, writes the status, and records the position of each member's data.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Paused bool `json:"paused,omitempty"`
}
