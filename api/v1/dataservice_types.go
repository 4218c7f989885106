// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DataService is a whole data platform: middleware (MySQL, the login centre
// UUC, Eureka), eight back-end services and a web front end. Every component
// is optional: what is declared is created, in order, and kept; what is taken
// out is removed. Data and the credentials that open it outlive the resource.
//
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

	// Spec is the platform as it should be.
	// +kubebuilder:default={}
	// +optional
	Spec DataServiceSpec `json:"spec"`

	// Status is the platform as the operator last saw it.
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

// DataServiceSpec declares the components of a platform. A service needs its
// middleware declared in the same resource, of kind ThirdParty where it runs
// elsewhere. null means not given, everywhere.
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
// +kubebuilder:validation:XValidation:rule="!has(self.uuc) || (has(self.uuc.kind) ? (self.uuc.kind == 3 || self.uuc.kind == 'ThirdParty') : true) || (has(self.uuc.image) && has(self.uuc.port))",fieldPath=".uuc",reason=FieldValueRequired,message="uuc has no image of its own: set spec.uuc.image and spec.uuc.port, or kind: ThirdParty"
// +kubebuilder:validation:XValidation:rule="!has(self.uuc) || has(self.uuc.kind) || has(self.uuc.thirdParty)",fieldPath=".uuc.thirdParty",reason=FieldValueRequired,message="uuc runs elsewhere unless it has another kind: give spec.uuc.thirdParty with its url"
// +kubebuilder:validation:XValidation:rule="!has(self.uuc) || !has(self.uuc.thirdParty) || self.uuc.thirdParty.url.startsWith('http')",fieldPath=".uuc.thirdParty.url",message="the url of uuc must be http:// or https://"
// +kubebuilder:validation:XValidation:rule="!has(self.eureka) || !has(self.eureka.thirdParty) || self.eureka.thirdParty.url.startsWith('http')",fieldPath=".eureka.thirdParty.url",message="the url of eureka must be http:// or https://"
type DataServiceSpec struct {
	// MySQL is the relational database of every back end. Its default kind is StatefulSet.
	// +optional
	// +nullable
	MySQL *MySQL `json:"mysql,omitempty"`

	// UUC is the login and user centre. Its default kind is ThirdParty; of another kind
	// it needs image and port.
	// +optional
	// +nullable
	UUC *Middleware `json:"uuc,omitempty"`

	// Eureka is the service registry. Its default kind is Deployment.
	// +optional
	// +nullable
	Eureka *Middleware `json:"eureka,omitempty"`

	// APIManager defines APIs and manages their life; administers the gateway.
	// +optional
	// +nullable
	APIManager *Service `json:"api-manager,omitempty"`

	// Auth is login, users, roles, tenants and tokens.
	// +optional
	// +nullable
	Auth *Service `json:"auth,omitempty"`

	// DSAdapter runs APIs over SQL data sources.
	// +optional
	// +nullable
	DSAdapter *Service `json:"ds-adapter,omitempty"`

	// ESAdapter runs APIs over Elasticsearch.
	// +optional
	// +nullable
	ESAdapter *Service `json:"es-adapter,omitempty"`

	// TRDAdapter runs APIs over third-party HTTP services.
	// +optional
	// +nullable
	TRDAdapter *Service `json:"trd-adapter,omitempty"`

	// GatewayMaster is the run-time API gateway.
	// +optional
	// +nullable
	GatewayMaster *Service `json:"gateway-master,omitempty"`

	// GatewayWeb is the administration API of the gateway.
	// +optional
	// +nullable
	GatewayWeb *Service `json:"gateway-web,omitempty"`

	// Proxy relays the console's calls to the back ends.
	// +optional
	// +nullable
	Proxy *Service `json:"proxy,omitempty"`

	// Web is the console: static files and a reverse proxy to proxy and gateway-master.
	// +optional
	// +nullable
	Web *Service `json:"web,omitempty"`

	// Paused stops the operator from writing anything but the status: nothing is created,
	// healed, updated or removed until it is false again.
	// +kubebuilder:default=false
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Rollout says in which order components are created and updated.
	// +kubebuilder:default={}
	// +optional
	Rollout Rollout `json:"rollout,omitempty"`
}

// RolloutOrder is how components wait for one another.
//
// +kubebuilder:validation:Enum=Dependency;Sequential
type RolloutOrder string

const (
	// OrderDependency starts a component when everything it depends on is ready.
	OrderDependency RolloutOrder = "Dependency"
	// OrderSequential starts one component at a time.
	OrderSequential RolloutOrder = "Sequential"
)

// Rollout says how the operator walks through the components.
type Rollout struct {
	// Order is Dependency (a component starts when everything it depends on is ready) or
	// Sequential (one component after the other).
	// +kubebuilder:default=Dependency
	// +optional
	Order RolloutOrder `json:"order,omitempty"`
}
