// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataService is a whole data platform: middleware (MySQL, UUC, Eureka, Redis, etcd, MongoDB), eight back-end services
// and a web front end. Every component is optional. The operator creates the declared components in order and keeps them
// running. A component that is removed from the spec is deleted. By default, data and its credentials outlive the
// resource.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ds3;dsvc,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="Components that are ready, of those declared"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,description="What the operator is doing, or what is wrong"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50",message="metadata.name must have at most 50 characters: it becomes a label value and a part of object names"
type DataService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the platform.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{mysql: {}, eureka: {replica: 3}, api-manager: {}}`
	// +optional
	Spec DataServiceSpec `json:"spec"`

	// status is the last observed state of the platform.
	// +kubebuilder:example=`{phase: Running, ready: 3/3}`
	// +optional
	Status DataServiceStatus `json:"status,omitempty"`
}

// DataServiceList is a list of DataServices.
//
// +kubebuilder:object:root=true
type DataServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DataService `json:"items"`
}

// DataServiceSpec declares the components of a platform. The middleware of a
// service must be declared in the same resource, with kind ThirdParty if the
// middleware runs elsewhere. A field that is null counts as not given.
//
// +kubebuilder:validation:XValidation:rule="!has(self.api__dash__manager) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="api-manager needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.api-manager"
// +kubebuilder:validation:XValidation:rule="!has(self.api__dash__manager) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="api-manager needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.api-manager"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="auth needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.auth"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="auth needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.auth"
// +kubebuilder:validation:XValidation:rule="!has(self.ds__dash__adapter) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="ds-adapter needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.ds-adapter"
// +kubebuilder:validation:XValidation:rule="!has(self.ds__dash__adapter) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="ds-adapter needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.ds-adapter"
// +kubebuilder:validation:XValidation:rule="!has(self.es__dash__adapter) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="es-adapter needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.es-adapter"
// +kubebuilder:validation:XValidation:rule="!has(self.es__dash__adapter) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="es-adapter needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.es-adapter"
// +kubebuilder:validation:XValidation:rule="!has(self.trd__dash__adapter) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="trd-adapter needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.trd-adapter"
// +kubebuilder:validation:XValidation:rule="!has(self.trd__dash__adapter) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="trd-adapter needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.trd-adapter"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway__dash__master) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="gateway-master needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.gateway-master"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway__dash__master) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="gateway-master needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.gateway-master"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway__dash__web) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="gateway-web needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.gateway-web"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway__dash__web) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="gateway-web needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.gateway-web"
// +kubebuilder:validation:XValidation:rule="!has(self.proxy) || has(self.mysql)",fieldPath=".mysql",reason=FieldValueRequired,message="proxy needs mysql: declare spec.mysql (kind: ThirdParty for one that runs elsewhere) or remove spec.proxy"
// +kubebuilder:validation:XValidation:rule="!has(self.proxy) || has(self.eureka)",fieldPath=".eureka",reason=FieldValueRequired,message="proxy needs eureka: declare spec.eureka (kind: ThirdParty for one that runs elsewhere) or remove spec.proxy"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || has(self.uuc)",fieldPath=".uuc",reason=FieldValueRequired,message="auth needs uuc: declare spec.uuc (kind: ThirdParty for one that runs elsewhere) or remove spec.auth"
// +kubebuilder:validation:XValidation:rule="!has(self.uuc) || (has(self.uuc.kind) ? (self.uuc.kind == 3 || self.uuc.kind == 'ThirdParty') : true) || (has(self.uuc.image) && has(self.uuc.port))",fieldPath=".uuc",reason=FieldValueRequired,message="uuc has no default image: set spec.uuc.image and spec.uuc.port, or kind: ThirdParty"
// +kubebuilder:validation:XValidation:rule="!has(self.uuc) || has(self.uuc.kind) || has(self.uuc.thirdParty)",fieldPath=".uuc.thirdParty",reason=FieldValueRequired,message="uuc is of kind ThirdParty by default: set spec.uuc.thirdParty.url, or another kind with image and port"
// +kubebuilder:validation:XValidation:rule="!has(self.uuc) || !has(self.uuc.thirdParty) || self.uuc.thirdParty.url.startsWith('http')",fieldPath=".uuc.thirdParty.url",message="the url of uuc must be http:// or https://"
// +kubebuilder:validation:XValidation:rule="!has(self.eureka) || !has(self.eureka.thirdParty) || self.eureka.thirdParty.url.startsWith('http')",fieldPath=".eureka.thirdParty.url",message="the url of eureka must be http:// or https://"
// +kubebuilder:validation:XValidation:rule="!has(self.redis) || ((!has(self.additionalServices) || self.additionalServices.all(s, s.name != 'redis')) && (!has(self.cronJobs) || self.cronJobs.all(c, c.name != 'redis')))",fieldPath=".redis",message="may not be set together with an additional service or cron job named 'redis': give that another name"
// +kubebuilder:validation:XValidation:rule="!has(self.etcd) || ((!has(self.additionalServices) || self.additionalServices.all(s, s.name != 'etcd')) && (!has(self.cronJobs) || self.cronJobs.all(c, c.name != 'etcd')))",fieldPath=".etcd",message="may not be set together with an additional service or cron job named 'etcd': give that another name"
// +kubebuilder:validation:XValidation:rule="!has(self.mongodb) || ((!has(self.additionalServices) || self.additionalServices.all(s, s.name != 'mongodb')) && (!has(self.cronJobs) || self.cronJobs.all(c, c.name != 'mongodb')))",fieldPath=".mongodb",message="may not be set together with an additional service or cron job named 'mongodb': give that another name"
type DataServiceSpec struct {
	// mysql is the relational database of every back end. Its default kind is StatefulSet.
	// +kubebuilder:example=`{storage: {size: 50Gi}}`
	// +optional
	// +nullable
	MySQL *MySQL `json:"mysql,omitempty"`

	// uuc is the login and user centre. Its default kind is ThirdParty; other kinds need
	// image and port.
	// +kubebuilder:example=`{thirdParty: {url: https://login.example.com}}`
	// +optional
	// +nullable
	UUC *Middleware `json:"uuc,omitempty"`

	// eureka is the service registry. Its default kind is Deployment.
	// +kubebuilder:example=`{replica: 3}`
	// +optional
	// +nullable
	Eureka *Middleware `json:"eureka,omitempty"`

	// redis is a Redis Cluster. Services that name redis in dependsOn have its nodes and its password in
	// their environment. Its default kind is Managed.
	// +kubebuilder:example=`{replicas: 6, storage: {size: 20Gi}}`
	// +optional
	// +nullable
	Redis *Redis `json:"redis,omitempty"`

	// etcd is an etcd cluster. Services that name etcd in dependsOn have its address in their environment, and
	// its client certificate in their pods. Its default kind is Managed.
	// +kubebuilder:example=`{replicas: 3, storage: {size: 20Gi}}`
	// +optional
	// +nullable
	Etcd *Etcd `json:"etcd,omitempty"`

	// mongodb is a replica set of MongoDB, which MongoDB's own operator runs. Services that name mongodb in dependsOn
	// have its connection string in their environment. Its default kind is Managed.
	// +kubebuilder:example=`{replicas: 3, storage: {size: 20Gi}}`
	// +optional
	// +nullable
	MongoDB *MongoDB `json:"mongodb,omitempty"`

	// api-manager defines APIs, manages their life cycle and administers the gateway.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	APIManager *Service `json:"api-manager,omitempty"`

	// auth stores users, roles and tenants, logs users in and issues tokens.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	Auth *Service `json:"auth,omitempty"`

	// ds-adapter runs APIs over SQL data sources.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	DSAdapter *Service `json:"ds-adapter,omitempty"`

	// es-adapter runs APIs over Elasticsearch.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	ESAdapter *Service `json:"es-adapter,omitempty"`

	// trd-adapter runs APIs over third-party HTTP services.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	TRDAdapter *Service `json:"trd-adapter,omitempty"`

	// gateway-master is the run-time API gateway.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	GatewayMaster *Published `json:"gateway-master,omitempty"`

	// gateway-web is the administration API of the gateway.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	GatewayWeb *Published `json:"gateway-web,omitempty"`

	// proxy relays the console's calls to the back ends.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	Proxy *Service `json:"proxy,omitempty"`

	// web is the console: static files and a reverse proxy to proxy and gateway-master.
	// +kubebuilder:example=`{replica: 2}`
	// +optional
	// +nullable
	Web *Published `json:"web,omitempty"`

	// additionalServices are your own services.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:example=`[{name: reports, image: registry.example.com/team/reports:v1, port: 8080}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	AdditionalServices []AdditionalService `json:"additionalServices,omitempty"`

	// cronJobs are your own jobs that run on a schedule.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:example=`[{name: clean-up, schedule: "30 4 * * *", image: busybox:1.37}]`
	// +listType=map
	// +listMapKey=name
	// +optional
	// +nullable
	CronJobs []CronJob `json:"cronJobs,omitempty"`

	// defaults apply to every component. A component's own value wins; maps are merged by key.
	// +kubebuilder:example=`{registry: mirror.example.com, size: medium}`
	// +optional
	// +nullable
	Defaults *Defaults `json:"defaults,omitempty"`

	// networkPolicy limits who may connect to each component's pods.
	// +kubebuilder:example=`{enabled: true}`
	// +optional
	// +nullable
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`

	// paused stops all writes of the operator except those of the status. While paused is true,
	// the operator creates, repairs, updates and deletes nothing.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Paused bool `json:"paused,omitempty"`

	// hibernate stops all pods and keeps data and addresses. Default: false.
	// +kubebuilder:example=`true`
	// +optional
	// +nullable
	Hibernate bool `json:"hibernate,omitempty"`

	// rollout configures the order in which components change, and their restarts.
	// +kubebuilder:default={}
	// +kubebuilder:example=`{order: Sequential, restartOnChange: true}`
	// +optional
	Rollout Rollout `json:"rollout,omitempty"`
}

// Defaults apply to every component. A component's own value wins; maps are merged by key.
type Defaults struct {
	// registry replaces the registry host of built-in images and is prepended to images without a host.
	// Default: none, images stay as they are.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[A-Za-z0-9._-]+)*$`
	// +kubebuilder:example=`mirror.example.com/platform`
	// +optional
	// +nullable
	Registry string `json:"registry,omitempty"`

	// size of the services: small, medium or large. Middleware and cron jobs do not use it. Default: the
	// built-in amounts of each service.
	// +kubebuilder:validation:XValidation:rule="self != 'custom'",message="must be 'small', 'medium' or 'large': set 'custom' with resources on the component itself"
	// +kubebuilder:example=`medium`
	// +optional
	// +nullable
	Size Size `json:"size,omitempty"`

	// env sets variables of the services and cron jobs, not of middleware.
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_.-][A-Za-z0-9_.-]*$'))",message="the name of an environment variable must consist of letters, digits, '_', '-' or '.' and not start with a digit"
	// +kubebuilder:example=`{LOG_LEVEL: info}`
	// +optional
	// +nullable
	Env map[string]string `json:"env,omitempty"`

	// timeZone (TZ) of containers, JDBC connections and JSON. Default: Asia/Shanghai.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z][A-Za-z0-9_+-]*)*$`
	// +kubebuilder:example=`Europe/Berlin`
	// +optional
	// +nullable
	TimeZone string `json:"timeZone,omitempty"`

	SchedulingFields `json:",inline"`
}

// NetworkPolicy limits connections to a component's pods. Only components that depend on the component or call it may
// connect, and only to its ports. A component with a nodePort, a load balancer or an ingress accepts connections from
// anywhere.
type NetworkPolicy struct {
	// enabled creates a NetworkPolicy for each component.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// allowFrom lists further peers (NetworkPolicyPeer) that may connect to every component, such as a
	// monitoring namespace.
	// +kubebuilder:example=`[{namespaceSelector: {matchLabels: {name: monitoring}}}]`
	// +optional
	// +nullable
	AllowFrom []Object `json:"allowFrom,omitempty"`

	// additionalPorts opens further TCP ports to the admitted peers, such as 15008 of Istio in ambient mode. Only used if
	// enabled is true. Through the port of a mesh, a client can reach every port of the pod: see docs/services.md.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(2380 in self) && !(16379 in self)",message="2380 and 16379 are for the members of etcd and Redis alone"
	// +kubebuilder:example=`[15008]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalPorts []int32 `json:"additionalPorts,omitempty"`
}

// RolloutOrder selects how components wait for one another.
//
// +kubebuilder:validation:Enum=Dependency;Sequential
type RolloutOrder string

const (
	// OrderDependency starts a component when everything it depends on is ready.
	OrderDependency RolloutOrder = "Dependency"
	// OrderSequential starts one component at a time.
	OrderSequential RolloutOrder = "Sequential"
)

// Rollout configures when the operator changes components.
type Rollout struct {
	// order is Dependency (a component starts when everything it depends on is ready) or
	// Sequential (one component after the other).
	// +kubebuilder:default=Dependency
	// +kubebuilder:example=`Sequential`
	// +optional
	Order RolloutOrder `json:"order,omitempty"`

	// restartOnChange restarts pods after a change of a Secret or ConfigMap that you created and the pods use. Pods of
	// databases are not restarted. Default: false.
	// +kubebuilder:example=`true`
	// +optional
	// +nullable
	RestartOnChange bool `json:"restartOnChange,omitempty"`
}
