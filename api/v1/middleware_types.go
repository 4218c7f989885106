// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// Middleware is a database, registry or login centre that services need.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || self.kind == 0 || self.kind == 1 || self.kind == 2 || self.kind == 3 || self.kind == 'Deployment' || self.kind == 'StatefulSet' || self.kind == 'DaemonSet' || self.kind == 'ThirdParty'",fieldPath=".kind",message="kind must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3)"
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || !(self.kind == 3 || self.kind == 'ThirdParty') || has(self.thirdParty)",fieldPath=".thirdParty",reason=FieldValueRequired,message="kind ThirdParty needs the thirdParty block with the url of the middleware"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(self.image)",fieldPath=".version",message="may not be set together with image: image includes the tag"
type Middleware struct {
	ObjectName `json:",inline"`
	Workload   `json:",inline"`

	// kind is Deployment (or 0), StatefulSet (1), DaemonSet (2), or ThirdParty (3: the middleware runs
	// elsewhere). Default: StatefulSet for mysql, Deployment for eureka (StatefulSet for several pods),
	// ThirdParty for uuc.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:example=`StatefulSet`
	// +optional
	// +nullable
	Kind *intstr.IntOrString `json:"kind,omitempty"`

	// version is the tag of the built-in image; uuc has no built-in image. Default: the tag of this operator release.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`
	// +kubebuilder:example=`v20240101`
	// +optional
	// +nullable
	Version string `json:"version,omitempty"`

	// thirdParty has the address of middleware of kind ThirdParty. Other kinds ignore it.
	// +kubebuilder:example=`{url: https://login.example.com}`
	// +optional
	// +nullable
	ThirdParty *ThirdParty `json:"thirdParty,omitempty"`
}

// ThirdParty is middleware that runs outside the platform. The operator creates an ExternalName
// Service with the component's name, and a probe pod that runs the check. The component is ready
// while the probe pod is ready.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !(has(self.username) || has(self.password))",message="give either secretRef or username and password, not both"
type ThirdParty struct {
	// url is the address: mysql://host:port for mysql, http:// or https:// for eureka and uuc.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(mysql|https?)://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$`
	// +kubebuilder:example=`mysql://db.example.com:3306`
	URL string `json:"url"`

	// checkCMD is a shell command that the probe pod runs. It must succeed while the middleware
	// works. Default: a request to the url.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:example=`mysqladmin ping -h db.example.com`
	// +optional
	// +nullable
	CheckCMD string `json:"checkCMD,omitempty"`

	// username is the account that services use at mysql. Prefer secretRef.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:example=`dataservice`
	// +optional
	// +nullable
	Username string `json:"username,omitempty"`

	// password of username. Everyone who may read the DataService can read it: prefer secretRef.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:example=`secret`
	// +optional
	// +nullable
	Password string `json:"password,omitempty"`

	// secretRef names a Secret with the keys username and password, for mysql.
	// +kubebuilder:example=`{name: database}`
	// +optional
	// +nullable
	SecretRef *ObjectReference `json:"secretRef,omitempty"`

	// custom is kept for compatibility. The operator does not read it.
	// +kubebuilder:example=`{note: old}`
	// +optional
	// +nullable
	Custom map[string]string `json:"custom,omitempty"`
}

// MySQL is the relational database.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replica) || self.replica <= 5",fieldPath=".replica",message="must be at most 5"
// +kubebuilder:validation:XValidation:rule="!(has(self.replica) && self.replica > 1 || has(self.replication)) || !has(self.kind) || self.kind == 1 || self.kind == 'StatefulSet'",fieldPath=".kind",message="must be StatefulSet if replica is above 1 or replication is set"
// +kubebuilder:validation:XValidation:rule="!(has(self.replica) && self.replica > 1 || has(self.replication)) || !(has(self.image) && self.image.matches('(^|/)[^/:@]*mariadb[^/:@]*([:@][^/]*)?$|:v?([0-7]|8[.][0-3])([.@-][^/]*)?$') || has(self.version) && self.version.matches('^v?([0-7]|8[.][0-3])([.-].*)?$') || has(self.serverVersion) && self.serverVersion.matches('^([0-7][.]|8[.][0-3]$|1[0-9][.])'))",fieldPath=".replica",message="with replica above 1, or with replication, the fields image, version and serverVersion must be of MySQL 8.4 or newer: MariaDB and older servers can lose acknowledged transactions"
// +kubebuilder:validation:XValidation:rule="!(has(self.replica) && self.replica > 1 || has(self.replication)) || !(has(oldSelf.replica) && oldSelf.replica > 1 || has(oldSelf.replication)) || (has(self.name) ? self.name : 'mysql-dataservice') == (has(oldSelf.name) ? oldSelf.name : 'mysql-dataservice')",fieldPath=".name",message="may not be changed with replica above 1 or with replication: under another name mysql starts without its data"
// +kubebuilder:validation:XValidation:rule="!has(self.replication) || !has(self.replication.primary) || !has(self.replica) || self.replica == 0 || self.replication.primary < self.replica",fieldPath=".replication.primary",message="must be the ordinal of a member, below replica"
// +kubebuilder:validation:XValidation:rule="!has(self.thirdParty) || self.thirdParty.url.matches('^mysql://[^/]+/?$')",fieldPath=".thirdParty.url",message="the url of mysql must be mysql://host:port, without the name of a schema"
// +kubebuilder:validation:XValidation:rule="!has(self.backup) || !(has(self.kind) && (self.kind == 2 || self.kind == 3 || self.kind == 'DaemonSet' || self.kind == 'ThirdParty'))",fieldPath=".backup",message="needs a mysql with a volume in the cluster: kind StatefulSet or Deployment"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !(has(self.kind) && (self.kind == 2 || self.kind == 3 || self.kind == 'DaemonSet' || self.kind == 'ThirdParty'))",fieldPath=".restoreFrom",message="needs a mysql with a volume in the cluster: only kind StatefulSet or Deployment has one"
// +kubebuilder:validation:XValidation:rule="!has(self.importFrom) || !has(self.restoreFrom) && !(has(self.kind) && (self.kind == 2 || self.kind == 3 || self.kind == 'DaemonSet' || self.kind == 'ThirdParty'))",fieldPath=".importFrom",message="needs a mysql with a volume (kind StatefulSet or Deployment), and no restoreFrom"
type MySQL struct {
	Middleware `json:",inline"`

	// acceptLoss consents to a loss of data by repeating a text. For a switch to the database in name, copy the text from
	// status.loses.accept of the DataRestore or from the condition DatabaseSwitch. For an import whose source was lost,
	// copy the text from the condition Imported. Without acceptLoss the current database stays in use. Default: no loss.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:example=`everything since 2026-01-02T15:29:59Z`
	// +optional
	// +nullable
	AcceptLoss string `json:"acceptLoss,omitempty"`

	// replication makes mysql a MySQLCluster of `replica` members, 0 to 5. A replica above 1 has the same effect. A single server keeps
	// its data when it becomes a MySQLCluster. The change cannot be reversed: with replica 1, mysql stays a MySQLCluster of one member.
	// Default: one server.
	// +kubebuilder:example=`{whenAlone: Block}`
	// +optional
	// +nullable
	Replication *MySQLReplication `json:"replication,omitempty"`

	// serverVersion is the release series of the server in the image, such as 5.7 or 8.0. The operator uses
	// the settings of this series, and refuses to start an image of another series. Data of another series is
	// always refused. Default: the settings of 5.7, for any image.
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}\.[0-9]{1,2}$`
	// +kubebuilder:example=`"5.7"`
	// +optional
	// +nullable
	ServerVersion string `json:"serverVersion,omitempty"`

	// storage is the volume with the data, for kind StatefulSet or Deployment.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 50Gi}`
	// +optional
	Storage MySQLStorage `json:"storage,omitempty"`

	// initScripts names ConfigMaps with .sql or .sh files. The files run once on an empty volume, after
	// the built-in schemas are created, in the order of their names.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:example=`[{name: more-tables}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	InitScripts []ObjectReference `json:"initScripts,omitempty"`

	// credentialsSecret names a Secret of this namespace with the keys root-password, username and
	// password of the new database. Default: a Secret that the operator generates and keeps.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`database-account`
	// +optional
	// +nullable
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// databases are created in addition to the built-in ones. The services' account has all rights on
	// them. Removing an entry does not drop the database.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[reports]`
	// +listType=set
	// +optional
	// +nullable
	Databases []DatabaseName `json:"databases,omitempty"`

	// users are accounts in addition to the services' own. The Secret <name>-users has a key with the name
	// of each account, whose value is the password. Removing an entry does not drop the account.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{name: reporter, databases: [reports]}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	Users []DatabaseUser `json:"users,omitempty"`

	// backup configures the store and the schedule of backups. Declaring it restarts the server once, to create the
	// account that makes the backups. Default: no backups.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, schedule: "30 4 * * *"}`
	// +optional
	// +nullable
	Backup *Backup `json:"backup,omitempty"`

	// restoreFrom is the backup from which a new database is made. It has an effect only before the first use of the
	// volume, so it never changes existing data. The passwords come from the Secrets, not from the backup. Default: a new
	// database is empty.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}}`
	// +optional
	// +nullable
	RestoreFrom *RestoreFrom `json:"restoreFrom,omitempty"`

	// importFrom is a running server. Until cutOver, a new database copies the server's data and changes, and services wait. With several
	// members, one server makes the copy and then becomes the first member. Default: a new database is empty.
	// +kubebuilder:example=`{host: old-db.example.com, credentialsSecret: {name: old-db}}`
	// +optional
	// +nullable
	ImportFrom *ImportFrom `json:"importFrom,omitempty"`
}

// DatabaseName is the name of a database.
//
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_]+$`
// +kubebuilder:validation:MaxLength=64
type DatabaseName string

// DatabaseUser is an account of the database.
//
// +kubebuilder:validation:XValidation:rule="!(self.name in ['root', 'dataservice'])",fieldPath=".name",message="must not be 'root' or 'dataservice', which exist already: choose another name"
type DatabaseUser struct {
	// name of the account.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_]+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:example=`reporter`
	Name string `json:"name"`

	// databases on which the account has all rights.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[reports]`
	// +listType=set
	// +optional
	// +nullable
	Databases []DatabaseName `json:"databases,omitempty"`
}

// ObjectReference names an object of this namespace.
type ObjectReference struct {
	// name of the object.
	// +kubebuilder:default=""
	// +kubebuilder:example=`more-tables`
	// +optional
	Name string `json:"name"`
}

// RetentionPolicy defines the fate of the data when its DataService or component is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type RetentionPolicy string

const (
	// RetentionRetain keeps the volume and its credentials.
	RetentionRetain RetentionPolicy = "Retain"
	// RetentionDelete deletes the volume and its credentials with the DataService.
	RetentionDelete RetentionPolicy = "Delete"
)

// MySQLStorage is the volume of a database.
//
// +kubebuilder:validation:XValidation:rule="(has(self.accessMode) ? self.accessMode : 'ReadWriteOnce') == (has(oldSelf.accessMode) ? oldSelf.accessMode : 'ReadWriteOnce')",fieldPath=".accessMode",message="accessMode may not be changed: a volume keeps its access mode. Restore a backup into a volume of the other mode: DataRestore, spec.storage.accessMode"
type MySQLStorage struct {
	GrowingStorage `json:",inline"`

	// accessMode is ReadWriteOnce (one node may use the volume) or ReadWriteOncePod (one pod may use the volume, so that two
	// servers never share it, even on one node; the CSI driver of the storage class must support this mode). It cannot be
	// changed later. Default: ReadWriteOnce.
	// +kubebuilder:validation:Pattern=`^ReadWriteOnce(Pod)?$`
	// +kubebuilder:example=`ReadWriteOncePod`
	// +optional
	// +nullable
	AccessMode string `json:"accessMode,omitempty"`
}

// GrowingStorage is a persistent volume that can grow by itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || !has(self.size) || !isQuantity(string(self.size)) || !isQuantity(string(self.autoGrow.limit)) || !quantity(string(self.autoGrow.limit)).isLessThan(quantity(string(self.size)))",fieldPath=".autoGrow",message="limit must not be below size: a volume never shrinks"
type GrowingStorage struct {
	Storage `json:",inline"`

	// autoGrow grows nearly full volumes, even while the server cannot run. The storage class must allow expansion. A
	// container in each pod reports the use of its volume. Default: volumes grow only when size grows.
	// +kubebuilder:example=`{limit: 100Gi}`
	// +optional
	// +nullable
	AutoGrow *backupv1.AutoGrow `json:"autoGrow,omitempty"`
}

// Storage is a persistent volume.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="storageClassName may not be changed: a volume stays in its class"
type Storage struct {
	// size of the volume. It can grow if the storage class can expand volumes. A size below the size
	// of the volume is ignored and reported (VolumeNotResized): volumes never shrink.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be a quantity above zero, such as 10Gi"
	// +kubebuilder:example=`50Gi`
	// +optional
	Size resource.Quantity `json:"size,omitempty"`

	// storageClassName is the storage class of the volume; it cannot be changed later. Default: the
	// cluster's default class.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`fast`
	// +optional
	// +nullable
	StorageClassName string `json:"storageClassName,omitempty"`

	// retention is Retain (data and credentials outlive the DataService; a new DataService of the same
	// name uses them again) or Delete (data and credentials are deleted with the DataService).
	// +kubebuilder:default=Retain
	// +kubebuilder:example=`Delete`
	// +optional
	Retention RetentionPolicy `json:"retention,omitempty"`
}
