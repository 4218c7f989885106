// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// MongoDB is a replica set of MongoDB. The operator creates one MongoDBCommunity with the name of the component. MongoDB's
// own operator for Kubernetes, which must be installed, runs the members. The data outlives the DataService.
//
// +kubebuilder:validation:XValidation:rule="!has(self.kind) || self.kind != 'ThirdParty' || has(self.thirdParty)",fieldPath=".thirdParty",reason=FieldValueRequired,message="kind ThirdParty needs the thirdParty block with the url of MongoDB"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (self.size == 'custom') == has(self.resources)",fieldPath=".size",message="resources is required with size 'custom' and may not be set with the other sizes"
// +kubebuilder:validation:XValidation:rule="!has(self.name) || self.name.size() <= 44",fieldPath=".name",message="must have at most 44 characters: it becomes a part of the names of Services and pods"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || !has(self.storage.retention) || self.storage.retention != 'Delete'",fieldPath=".storage.retention",message="must be 'Retain': the operator never deletes the data of MongoDB. Delete the volume claims yourself when you need them no more"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || (has(self.name) ? self.name : 'mongodb') == (has(oldSelf.name) ? oldSelf.name : 'mongodb')",fieldPath=".name",message="may not be changed while MongoDB runs in the cluster: under another name it starts without its data. Set the name back, or remove spec.mongodb first to start again"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || !has(self.database) || !has(oldSelf.database) || self.database == oldSelf.database",fieldPath=".database",message="may not be changed while MongoDB runs in the cluster: services would find an empty database. Set it back"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || !has(self.storage) || !has(oldSelf.storage) || !has(self.storage.size) || !has(oldSelf.storage.size) || self.storage.size == oldSelf.storage.size",fieldPath=".storage.size",message="may not be changed while MongoDB runs in the cluster: MongoDB's operator cannot resize volumes. Set it back"
// +kubebuilder:validation:XValidation:rule="(has(self.kind) && self.kind == 'ThirdParty') || (has(oldSelf.kind) && oldSelf.kind == 'ThirdParty') || !has(self.version) || !has(oldSelf.version) || int(self.version.split('.')[0]) >= int(oldSelf.version.split('.')[0])",fieldPath=".version",message="may not become an older major version: MongoDB does not open data of a newer one. Set it back"
type MongoDB struct {
	ObjectName `json:",inline"`

	// kind is Managed (MongoDB's operator runs the replica set) or ThirdParty (MongoDB runs elsewhere; scheduling,
	// labels and annotations then apply to the probe pod). Default: Managed.
	// +kubebuilder:validation:Pattern=`^(Managed|ThirdParty)$`
	// +kubebuilder:example=`Managed`
	// +optional
	// +nullable
	Kind string `json:"kind,omitempty"`

	// replicas is the number of members, all of which vote: 1 to 7. An even number tolerates only as many losses as the
	// next lower odd number.
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	// +kubebuilder:example=`5`
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// version of MongoDB. MongoDB's operator must support it: 8.0 needs MongoDB Controllers for Kubernetes, or the Community operator
	// 0.12. An upgrade passes one major version at a time.
	// +kubebuilder:default="8.0.12"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,6}$`
	// +kubebuilder:example=`7.0.22`
	// +optional
	Version string `json:"version,omitempty"`

	// image of mongod, with its tag. It must contain the version in the field version. Default: the image of MongoDB's operator for that version.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`
	// +kubebuilder:example=`registry.example.com/team/mongodb-community-server:8.0.12-ubi9`
	// +optional
	// +nullable
	Image string `json:"image,omitempty"`

	// database is the database of the services. The account dataservice may read and write this database, and administer its collections and indexes.
	// +kubebuilder:default="dataservice"
	// +kubebuilder:validation:MaxLength=38
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['admin', 'local', 'config'])",message="must not be 'admin', 'local' or 'config', which are MongoDB's own: choose another name"
	// +kubebuilder:example=`orders`
	// +optional
	Database string `json:"database,omitempty"`

	// credentialsSecret names a Secret of this namespace whose key password is the password of the account dataservice. Default: a Secret
	// that the operator generates and keeps.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`mongodb-account`
	// +optional
	// +nullable
	CredentialsSecret string `json:"credentialsSecret,omitempty"`

	// size of each mongod container is small, medium, large, or custom (the amounts in resources). Default: 100m to 1 CPU
	// and 1Gi of memory.
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size Size `json:"size,omitempty"`

	// resources (ResourceRequirements) are the requests and limits for size custom.
	// +kubebuilder:example=`{limits: {memory: 4Gi}}`
	// +optional
	// +nullable
	Resources *Object `json:"resources,omitempty"`

	// storage is the data volume of each pod. Its retention is Retain. Each pod also has a volume of 2G for logs.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{size: 20Gi}`
	// +optional
	Storage Storage `json:"storage,omitempty"`

	// config are settings of mongod, as in its configuration file: objects, or dotted names. After a change, MongoDB's operator replaces the pods one
	// by one.
	// +kubebuilder:example=`{storage.wiredTiger.engineConfig.cacheSizeGB: 2}`
	// +optional
	// +nullable
	Config *Object `json:"config,omitempty"`

	// antiAffinity keeps the members on different nodes: Soft (if possible) or Hard (otherwise the pod is
	// not scheduled). Default: Soft.
	// +kubebuilder:validation:Pattern=`^(Soft|Hard)$`
	// +kubebuilder:example=`Hard`
	// +optional
	// +nullable
	AntiAffinity string `json:"antiAffinity,omitempty"`

	// dependsOn names components that must be ready before mongodb is created or changed.
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

	// podTemplate (PodTemplateSpec) is merged into the pod template last, for everything that has no field here. The containers of
	// MongoDB's operator are mongod and mongodb-agent.
	// +kubebuilder:example=`{spec: {hostAliases: [{ip: "192.0.2.1", hostnames: [store]}]}}`
	// +optional
	// +nullable
	PodTemplate *Object `json:"podTemplate,omitempty"`

	SchedulingFields `json:",inline"`

	// thirdParty has the address of MongoDB of kind ThirdParty.
	// +kubebuilder:example=`{url: "mongodb://10.0.0.1:27017,10.0.0.2:27017/orders?replicaSet=rs0", secretRef: {name: mongodb-account}}`
	// +optional
	// +nullable
	ThirdParty *MongoDBThirdParty `json:"thirdParty,omitempty"`
}

// MongoDBThirdParty is a MongoDB that runs outside the platform. The operator creates an ExternalName Service
// <name>-external for its first host, and a probe pod that runs the check. The component is ready while the probe pod is
// ready.
//
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('mongodb+srv') || has(self.checkCMD)",fieldPath=".checkCMD",reason=FieldValueRequired,message="must be set with a mongodb+srv url: the built-in check needs the addresses of hosts"
type MongoDBThirdParty struct {
	// url is the connection string without an account: mongodb://host:port,host:port/database?options, or mongodb+srv://.
	// Default of the ports: 27017. Services get this string, unless secretRef is set.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^mongodb(\+srv)?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(,([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)*(/[A-Za-z0-9_-]*(\?[A-Za-z0-9_.,=&%:;~+-]*)?)?$`
	// +kubebuilder:example=`mongodb://10.0.0.1:27017,10.0.0.2:27017/orders?replicaSet=rs0`
	URL string `json:"url"`

	// checkCMD is a shell command that the probe pod runs. It must succeed while MongoDB
	// works. Default: a connection to one of the hosts.
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:example=`nc -z mongo.example.com 27017`
	// +optional
	// +nullable
	CheckCMD string `json:"checkCMD,omitempty"`

	// secretRef names a Secret whose key connectionString.standard is the whole connection string, with the account. Services get
	// this string instead of url.
	// +kubebuilder:example=`{name: mongodb-account}`
	// +optional
	// +nullable
	SecretRef *ObjectReference `json:"secretRef,omitempty"`
}
