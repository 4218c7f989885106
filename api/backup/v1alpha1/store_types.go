// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterBackup configures the backups of a cluster: their store and schedule.
type ClusterBackup struct {
	// destination is the bucket or the volume that holds the backups.
	// +kubebuilder:example=`{claim: {name: backups}}`
	Destination BackupDestination `json:"destination"`

	// encryption has the public keys with which backups are encrypted. Default: backups are not encrypted.
	// +kubebuilder:example=`{recipients: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}`
	// +optional
	// +nullable
	Encryption *BackupEncryption `json:"encryption,omitempty"`

	// schedule of backups, in the format of cron. Default: none, and only a DataBackup makes a backup.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$`
	// +kubebuilder:example=`"30 4 * * *"`
	// +optional
	// +nullable
	Schedule string `json:"schedule,omitempty"`

	// timeZone of the schedule, such as Europe/Berlin. Default: the time zone of the cluster.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`
	// +kubebuilder:example=`Etc/UTC`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	// retention selects the backups that are kept. A job deletes the other backups once an hour.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{keep: 14, keepFor: 720h, atLeast: 3}`
	// +optional
	Retention BackupRetention `json:"retention,omitempty"`

	// resources are the requests and limits of the pods that make backups. Default: 100m to 1 CPU, and 128Mi to 512Mi of memory (to 1Gi for a
	// MySQLCluster).
	// +kubebuilder:example=`{limits: {memory: 512Mi}}`
	// +optional
	// +nullable
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// podTemplate (PodTemplateSpec) is merged last into the pods that make, check and remove backups, and into the pod of the archive. The container
	// that does the work is called backup. The init container called agent copies the agent's program into the pod.
	// +kubebuilder:example=`{spec: {securityContext: {runAsUser: 1000700000}, containers: [{name: backup, env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`
}

// Template returns podTemplate as JSON; nil without one.
func (b *ClusterBackup) Template() []byte {
	if b == nil || b.PodTemplate == nil {
		return nil
	}
	return b.PodTemplate.Raw
}

// ClusterBackupStatus describes the backups of a cluster. Its times change with a backup, and never decrease.
type ClusterBackupStatus struct {
	// lastSuccessful is the time when the last backup ended.
	// +kubebuilder:example=`"2026-01-02T15:04:05Z"`
	// +optional
	LastSuccessful *metav1.Time `json:"lastSuccessful,omitempty"`

	// lastID is the ID of the last backup.
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	LastID string `json:"lastID,omitempty"`

	// warnings of the last backup. Each names data that a restore will lack. They have at most 4 KiB: long
	// warnings are shortened, and the last one counts the omitted ones.
	// +kubebuilder:example=`["table a.b is MyISAM"]`
	// +listType=atomic
	// +optional
	Warnings []string `json:"warnings,omitempty"`
}

// Conditions and reasons of a cluster with spec.backup.
const (
	// ConditionBackupHealthy is True when the last backup succeeded. It is only present if spec.backup is declared.
	ConditionBackupHealthy = "BackupHealthy"
	// ReasonBackupSucceeded: the last backup succeeded.
	ReasonBackupSucceeded = "BackupSucceeded"
	// ReasonNoBackup: there is no backup yet.
	ReasonNoBackup = "NoBackup"
	// ReasonBackupOverdue: the last backup is older than the schedule allows.
	ReasonBackupOverdue = "BackupOverdue"
	// ReasonBackupFailed: the last backup failed, and its pod reported no reason.
	ReasonBackupFailed = "BackupFailed"
)

// ClusterRestore selects the backup from which a new cluster is made.
type ClusterRestore struct {
	// destination is the bucket or the volume that holds the backup, with the prefix of the cluster that was backed up.
	// +kubebuilder:example=`{claim: {name: backups}}`
	Destination BackupDestination `json:"destination"`

	// backup is the ID of the backup, or latest.
	// +kubebuilder:default=latest
	// +kubebuilder:validation:MaxLength=25
	// +kubebuilder:validation:Pattern=`^(latest|[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8})$`
	// +kubebuilder:example=`20260102T150405Z-0a1b2c3d`
	// +optional
	Backup string `json:"backup,omitempty"`

	// identitySecret names a Secret of this namespace whose key identities has a private key that opens the backup.
	// +kubebuilder:example=`{name: age-key}`
	// +optional
	// +nullable
	IdentitySecret *SecretName `json:"identitySecret,omitempty"`
}

// BackupDestination is the bucket or the volume that holds backups.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.claim)",message="give either s3 or claim"
type BackupDestination struct {
	// s3 is a bucket of a store with the S3 protocol.
	// +kubebuilder:example=`{endpoint: "https://s3.example.com", bucket: backups, credentialsSecret: {name: s3}}`
	// +optional
	// +nullable
	S3 *S3 `json:"s3,omitempty"`

	// claim is a volume, such as a share of NFS. It should not be in the storage system that holds the database.
	// +kubebuilder:example=`{name: backups}`
	// +optional
	// +nullable
	Claim *BackupClaim `json:"claim,omitempty"`
}

// S3 is a bucket of a store with the S3 protocol.
type S3 struct {
	// endpoint is the address of the store.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9.:\[\]-]+/?$`
	// +kubebuilder:example=`https://s3.example.com`
	Endpoint string `json:"endpoint"`

	// bucket is the name of the bucket, which must exist.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`
	// +kubebuilder:example=`backups`
	Bucket string `json:"bucket"`

	// prefix is a folder in the bucket. Two sources of backups must not share a folder.
	// Default: <namespace>/<name of the resource>/<mysql, etcd or redis>, and mysql.cluster for a MySQLCluster.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*/?$`
	// +kubebuilder:example=`production/platform`
	// +optional
	// +nullable
	Prefix string `json:"prefix,omitempty"`

	// region of the bucket, for stores that require a region.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	// +kubebuilder:example=`eu-central-1`
	// +optional
	// +nullable
	Region string `json:"region,omitempty"`

	// pathStyle puts the bucket into the path of an address and not into its host name.
	// +kubebuilder:default=true
	// +kubebuilder:example=`false`
	// +optional
	PathStyle *bool `json:"pathStyle,omitempty"`

	// credentialsSecret names a Secret of this namespace with the keys accessKey and secretKey, and sessionToken for temporary
	// credentials. Default: the credentials of the service account in podTemplate (IRSA, EKS Pod Identity).
	// +kubebuilder:example=`{name: s3}`
	// +optional
	// +nullable
	CredentialsSecret *SecretName `json:"credentialsSecret,omitempty"`

	// encryption asks the store to encrypt objects, for buckets that require encryption. Default: the settings of the bucket.
	// +kubebuilder:example=`{algorithm: KMS, key: backups}`
	// +optional
	// +nullable
	Encryption *StoreEncryption `json:"encryption,omitempty"`

	// caSecret names a Secret of this namespace whose key ca.crt has certificates of authorities to trust for the
	// store, in addition to those of the image.
	// +kubebuilder:example=`{name: store-ca}`
	// +optional
	// +nullable
	CASecret *SecretName `json:"caSecret,omitempty"`
}

// StoreEncryption selects the encryption that a store applies to objects. The store itself can decrypt these objects.
type StoreEncryption struct {
	// algorithm is AES256 (with a key of the store) or KMS.
	// +kubebuilder:default=AES256
	// +kubebuilder:validation:Enum=AES256;KMS
	// +kubebuilder:example=`KMS`
	// +optional
	Algorithm string `json:"algorithm,omitempty"`

	// key of the store's key management, for KMS. Default: the key of the bucket.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:/_-]+$`
	// +kubebuilder:example=`backups`
	// +optional
	// +nullable
	Key string `json:"key,omitempty"`
}

// BackupClaim is a claim of this namespace.
type BackupClaim struct {
	// name of the claim, which must exist.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`backups`
	Name string `json:"name"`

	// folder on the volume. Two sources of backups must not share a folder. Default: the whole volume for a DataService, and
	// <namespace>/<name of the resource>/<etcd, redis or mysql.cluster> for other kinds.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	// +kubebuilder:example=`production/cache`
	// +optional
	// +nullable
	Folder string `json:"folder,omitempty"`
}

// BackupEncryption selects the keys that open encrypted backups.
type BackupEncryption struct {
	// recipients are public keys of the tool age. The private key of any one of them opens a backup. To make backups, the
	// cluster needs no private key.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=100
	// +kubebuilder:validation:items:Pattern=`^age1[02-9ac-hj-np-z]{58}$`
	// +kubebuilder:example=`[age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]`
	// +listType=set
	Recipients []string `json:"recipients"`
}

// BackupRetention selects the backups that are kept. A backup is deleted when it is neither among the newest (keep) nor young enough
// (keepFor). The newest verified backup and all later backups are always kept.
type BackupRetention struct {
	// keep is the number of newest good backups that are kept.
	// +kubebuilder:default=14
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:example=`30`
	// +optional
	Keep int32 `json:"keep,omitempty"`

	// keepFor is the time for which each backup is kept. Default: only keep applies.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,5}h$`
	// +kubebuilder:example=`720h`
	// +optional
	// +nullable
	KeepFor string `json:"keepFor,omitempty"`

	// atLeast is the number of good backups that are always kept, regardless of keep and keepFor.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:example=`5`
	// +optional
	AtLeast int32 `json:"atLeast,omitempty"`
}

// SetDefaults sets the defaults that the API server sets, for a program that compares the stored resource with the resource that it wrote.
func (b *ClusterBackup) SetDefaults() {
	if b.Retention.Keep == 0 {
		b.Retention.Keep = 14
	}
	if b.Retention.AtLeast == 0 {
		b.Retention.AtLeast = 3
	}
	b.Destination.setDefaults()
}

// SetDefaults sets the defaults that the API server sets.
func (r *ClusterRestore) SetDefaults() {
	if r.Backup == "" {
		r.Backup = "latest"
	}
	r.Destination.setDefaults()
}

func (d *BackupDestination) setDefaults() {
	if d.S3 != nil && d.S3.PathStyle == nil {
		d.S3.PathStyle = new(bool)
		*d.S3.PathStyle = true
	}
}
