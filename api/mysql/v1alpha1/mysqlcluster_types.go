// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CRD enums reject null, so optional fields without a default use a pattern that lists their values.

// MySQLCluster is a replicated MySQL database: a primary and its replicas, each with its
// own volume. The operator forms the database, replaces a lost primary without losing an
// acknowledged transaction, copies the data to empty members, and replaces pods one at a
// time.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=myc,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="The members that serve or follow without lag, and the wanted members"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="The lowest version of MySQL that a member runs"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="What the operator is doing, or what is wrong"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 44 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a letter followed by letters, digits and '-', 44 characters at most: it becomes a part of the names of Services and pods"
type MySQLCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the database.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{replicas: 3, storage: {size: 10Gi}}`
	// +optional
	Spec MySQLClusterSpec `json:"spec"`

	// status is the last observed state of the database.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{phase: Running, ready: 3/3, primary: my-database-0}`
	// +optional
	Status MySQLClusterStatus `json:"status,omitempty"`
}

// MySQLClusterList is a list of MySQLClusters.
//
// +kubebuilder:object:root=true
type MySQLClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MySQLCluster `json:"items"`
}

// MySQLClusterSpec is the desired state of a replicated MySQL database. A field that is null counts as not given.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replication) || !has(self.replication.primary) || !has(self.replicas) || self.replicas == 0 || self.replication.primary < self.replicas",fieldPath=".replication.primary",message="must be the ordinal of a member, below replicas"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.image) || !has(self.image) || !oldSelf.image.matches(':v?9([.@-][^/]*)?$') || !self.image.matches(':v?8[.@-][^/]*$')",fieldPath=".image",message="may not go back from MySQL 9 to MySQL 8: an older server cannot read the data"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || has(oldSelf.restoreFrom)",fieldPath=".restoreFrom",message="may be given only when the MySQLCluster is created: existing data is never replaced. Create another MySQLCluster with restoreFrom"
type MySQLClusterSpec struct {
	// replicas is the number of members: 0 to 5. 0 parks the database: no pod runs, and the data is kept. With 1
	// there is no copy. With 3 or more, two replicas acknowledge transactions; further replicas only serve reads.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	// +kubebuilder:example=`5`
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// image of MySQL 8.4 or newer. An upgrade replaces one member at a time, the primary last.
	// Default: docker.io/library/mysql:8.4.9.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[^/:@]*mariadb[^/:@]*([:@][^/]*)?$')",message="MariaDB is refused: a query that is killed there acknowledges a transaction that no other member has. Give an image of MySQL 8.4 or newer, or run MariaDB as the one pod of spec.mysql of a DataService"
	// +kubebuilder:validation:XValidation:rule="!self.matches(':v?([0-7]|8[.][0-3])([.@-][^/]*)?$')",message="MySQL 8.4 or newer is needed, because older servers lack what keeps acknowledged transactions safe: give an image of 8.4 or newer. To keep the data of an older server, restore a dump of that server"
	// +kubebuilder:example=`registry.example.com/library/mysql:8.4.9`
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

	// replication configures which member may be the primary, and when.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{whenAlone: Block, primary: 1}`
	// +optional
	Replication Replication `json:"replication,omitempty"`

	// storage is the volume of each member.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 50Gi, storageClassName: fast}`
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// credentialsSecret names a Secret of this namespace with the keys root-password (for root, who logs in only inside
	// the pods), username and password (the clients' account). A changed password takes effect without a restart.
	// Default: a Secret that the operator generates and keeps.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`database-account`
	// +optional
	// +nullable
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// databases are created if they do not exist. The clients' account has all rights on these databases,
	// and no rights on others. Removing an entry does not drop the database.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[shop]`
	// +listType=set
	// +optional
	// +nullable
	Databases []DatabaseName `json:"databases,omitempty"`

	// users are further accounts. usersSecret has their passwords. The operator creates the accounts while the database runs.
	// Removing an entry drops neither the account nor its rights.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{name: reporter, databases: [shop]}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	Users []User `json:"users,omitempty"`

	// usersSecret names a Secret of this namespace. It has a key with the name of each account in users.
	// The value is the account's password. A changed password takes effect without a restart. Default: <name>-users.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`database-users`
	// +optional
	// +nullable
	UsersSecret string `json:"usersSecret,omitempty"`

	// config are options of mysqld, by name, as in my.cnf. A change replaces the pods one by one, the primary last. Options that the operator
	// sets itself, and values that may lose acknowledged transactions, are refused. event_scheduler applies to the primary; replicas run no
	// events.
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z][a-z0-9_-]*$'))",message="the name of an option must consist of small letters, digits, '-' and '_', without dashes before it"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.matches('^(loose[-_]|skip[-_]|disable[-_]|enable[-_]|maximum[-_])*(server[-_]id|(super[-_])?read[-_]only|offline[-_]mode|replica[-_]start|slave[-_]start|gtid[-_].*|enforce[-_]gtid[-_]consistency|log[-_](replica|slave)[-_]updates|log[-_]bin|log[-_]bin[-_]index|sync[-_](binlog|relay[-_]log|source[-_]info|master[-_]info)|innodb[-_]flush[-_]log[-_]at[-_]trx[-_]commit|innodb[-_]doublewrite|innodb[-_]force[-_]recovery|innodb[-_](data|log[-_]group)[-_]home[-_]dir|innodb[-_]directories|innodb[-_]undo[-_]directory|innodb[-_]read[-_]only|relay[-_]log.*|(replica|slave)[-_](preserve[-_]commit[-_]order|skip[-_]errors|net[-_]timeout)|replicate[-_].*|binlog[-_](do|ignore)[-_]db|binlog[-_]format|binlog[-_]row[-_]image|rpl[-_]semi[-_]sync[-_].*|plugin[-_](load|dir).*|early[-_]plugin[-_]load|name[-_]resolve|networking|grant[-_]tables|datadir|basedir|tmpdir|socket|pid[-_]file|bind[-_]address|port|admin[-_].*|mysqlx.*|daemonize|user|chroot|init[-_](file|connect|replica|slave)|initialize.*|persisted[-_]globals[-_]load|performance[-_]schema|defaults[-_].*|no[-_]defaults|upgrade|report[-_](host|port)|lower[-_]case[-_]table[-_]names|authentication[-_]policy|clone[-_].*|secure[-_]file[-_]priv)$'))",message="an option that the operator sets itself, such as server-id, gtid-mode, log-bin, sync-binlog or datadir, or that would make members differ, may not be given"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.matches('^(loose[-_]|skip[-_]|disable[-_]|enable[-_]|maximum[-_])*(binlog[-_]error[-_]action|(replica|slave)[-_](exec[-_]mode|parallel[-_]type)|disabled[-_]storage[-_]engines|tc[-_]heuristic[-_]recover|innodb[-_](log[-_]checksums|checksum[-_]algorithm|doublewrite[-_]dir|data[-_]file[-_]path))$'))",message="binlog-error-action, replica-exec-mode, replica-parallel-type, disabled-storage-engines, tc-heuristic-recover, innodb-log-checksums, innodb-checksum-algorithm, innodb-doublewrite-dir and innodb-data-file-path may lose acknowledged transactions: remove the option; the operator uses the safe value"
	// +kubebuilder:validation:XValidation:rule="self.all(name, !name.matches('^(loose[-_]|skip[-_]|disable[-_]|enable[-_]|maximum[-_])*innodb[-_]flush[-_]method$') || self[name].matches('^(?i)(fsync|O_DSYNC|O_DIRECT|O_DIRECT_NO_FSYNC|0|1|4|5)$'))",message="innodb-flush-method must be fsync, O_DSYNC, O_DIRECT or O_DIRECT_NO_FSYNC: with other values acknowledged transactions may be lost"
	// +kubebuilder:example=`{max_connections: "400", innodb_buffer_pool_size: 2G}`
	// +optional
	// +nullable
	Config map[string]Option `json:"config,omitempty"`

	// size is small, medium or large. It sets innodb_buffer_pool_size and, unless resources is set, the resources
	// of each MySQL container. Default: 100m to 1 CPU, 1500Mi to 2000Mi of memory and a buffer pool of 768M.
	// +kubebuilder:validation:Pattern=`^(small|medium|large)$`
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size string `json:"size,omitempty"`

	// resources are the requests and limits of the MySQL container. Default: the resources of size.
	// +kubebuilder:example=`{requests: {memory: 4Gi}, limits: {memory: 4Gi}}`
	// +optional
	// +nullable
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// service configures the Service of the primary.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{type: LoadBalancer}`
	// +optional
	Service Service `json:"service,omitempty"`

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

	// topologySpreadConstraints spread the pods over zones. A constraint without a labelSelector applies to the database's pods.
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

	// timeZone is the time zone of the servers. Default: the time zone of the image, UTC.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+/-]+$`
	// +kubebuilder:example=`Asia/Shanghai`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	// backup configures the store and the schedule of backups. A DataBackup makes a backup at any time. A pod that makes or checks a
	// backup has a volume of storage.size. Default: no backups.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, schedule: "30 4 * * *", pointInTime: {interval: 30s}}`
	// +optional
	// +nullable
	Backup *Backup `json:"backup,omitempty"`

	// restoreFrom is the backup from which a new database is made. It is read once, before the database is formed for the
	// first time. Default: a new database is empty.
	// +kubebuilder:example=`{destination: {claim: {name: backups}}, backup: latest}`
	// +optional
	// +nullable
	RestoreFrom *RestoreFrom `json:"restoreFrom,omitempty"`

	// networkPolicy limits the peers that may connect as clients. Only the database's own pods, the pods of its backups and the operator may ever
	// connect to its agents.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{enabled: true}`
	// +optional
	NetworkPolicy NetworkPolicy `json:"networkPolicy,omitempty"`

	// paused stops the operator from changing anything in Kubernetes or in MySQL, and from replacing a lost primary.
	// The operator still observes the database and writes the status.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Paused bool `json:"paused,omitempty"`
}
