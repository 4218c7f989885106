// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"slices"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Kind is the kind of a component's workload.
type Kind string

// The kinds of a component. The API also accepts their numbers, 0 to 3.
const (
	Deployment  Kind = "Deployment"
	StatefulSet Kind = "StatefulSet"
	DaemonSet   Kind = "DaemonSet"
	ThirdParty  Kind = "ThirdParty"
	CronJob     Kind = "CronJob" // only for cronJobs
	Managed     Kind = "Managed" // one resource of another kind, of this operator or of MongoDB's operator
)

// The charts from which components are rendered.
const (
	ChartMicroservice = "microservice"
	ChartMySQL        = "mysql"
	ChartEureka       = "eureka"
	ChartThirdParty   = "third-party"
	ChartCronJob      = "cronjob"
	ChartRedis        = "redis"
	ChartEtcd         = "etcd"
	ChartMongoDB      = "mongodb"
	ChartReplicated   = "mysqlmembers" // for a MySQL with several members
)

// The components to which code refers by name.
const (
	MySQL         dsv1.ComponentName = "mysql"
	UUC           dsv1.ComponentName = "uuc"
	Eureka        dsv1.ComponentName = "eureka"
	Redis         dsv1.ComponentName = "redis"
	Etcd          dsv1.ComponentName = "etcd"
	MongoDB       dsv1.ComponentName = "mongodb"
	APIManager    dsv1.ComponentName = "api-manager"
	Auth          dsv1.ComponentName = "auth"
	DSAdapter     dsv1.ComponentName = "ds-adapter"
	ESAdapter     dsv1.ComponentName = "es-adapter"
	TRDAdapter    dsv1.ComponentName = "trd-adapter"
	GatewayMaster dsv1.ComponentName = "gateway-master"
	GatewayWeb    dsv1.ComponentName = "gateway-web"
	Proxy         dsv1.ComponentName = "proxy"
	Web           dsv1.ComponentName = "web"
)

// Platform is the value of the component label on objects that all components have in common. No component has this name.
const Platform = "platform"

// definition is one row of the component table.
type definition struct {
	name       dsv1.ComponentName
	objectName string
	chart      string
	kind       Kind                 // default kind
	preset     bool                 // the microservice chart has product defaults for it
	after      []dsv1.ComponentName // edges in addition to "middleware before services"
	calls      []dsv1.ComponentName // connects to these components at run time, without waiting for them
	spec       func(*dsv1.DataServiceSpec) Declaration
}

// table lists every component of the product in display order. A new component needs a row here, a field in the API and a chart.
var table = []definition{
	{name: MySQL, objectName: "mysql-dataservice", chart: ChartMySQL, kind: StatefulSet,
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofMySQL(s.MySQL) }},
	{name: UUC, objectName: "uuc", chart: ChartMicroservice, kind: ThirdParty,
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofMiddleware(s.UUC) }},
	{name: Eureka, objectName: "eureka", chart: ChartEureka, kind: Deployment,
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofMiddleware(s.Eureka) }},
	{name: Redis, objectName: "redis", chart: ChartRedis, kind: Managed,
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofRedis(s.Redis) }},
	{name: Etcd, objectName: "etcd", chart: ChartEtcd, kind: Managed,
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofEtcd(s.Etcd) }},
	{name: MongoDB, objectName: "mongodb", chart: ChartMongoDB, kind: Managed,
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofMongoDB(s.MongoDB) }},
	product(definition{name: APIManager, calls: []dsv1.ComponentName{GatewayWeb},
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofService(s.APIManager) }}),
	product(definition{name: Auth, spec: func(s *dsv1.DataServiceSpec) Declaration { return ofService(s.Auth) }}),
	product(definition{name: DSAdapter, spec: func(s *dsv1.DataServiceSpec) Declaration { return ofService(s.DSAdapter) }}),
	product(definition{name: ESAdapter, spec: func(s *dsv1.DataServiceSpec) Declaration { return ofService(s.ESAdapter) }}),
	product(definition{name: TRDAdapter, spec: func(s *dsv1.DataServiceSpec) Declaration { return ofService(s.TRDAdapter) }}),
	// The gateway calls APIs through the adapters.
	product(definition{name: GatewayMaster, calls: []dsv1.ComponentName{DSAdapter, ESAdapter, TRDAdapter},
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofPublished(s.GatewayMaster) }}),
	product(definition{name: GatewayWeb, spec: func(s *dsv1.DataServiceSpec) Declaration { return ofPublished(s.GatewayWeb) }}),
	// The proxy calls the components to which the routes in its application.yml lead.
	product(definition{name: Proxy, calls: []dsv1.ComponentName{APIManager, Auth, DSAdapter},
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofService(s.Proxy) }}),
	// nginx resolves the names of its upstreams when it starts.
	product(definition{name: Web, after: []dsv1.ComponentName{Proxy, GatewayMaster},
		spec: func(s *dsv1.DataServiceSpec) Declaration { return ofPublished(s.Web) }}),
}

// product completes the row of a service for which the microservice chart has defaults.
func product(row definition) definition {
	row.objectName, row.chart, row.kind, row.preset = string(row.name), ChartMicroservice, Deployment, true
	return row
}

// DefaultObjectName returns the default name of a component's objects.
func DefaultObjectName(name dsv1.ComponentName) string {
	return table[TableIndex(string(name))].objectName
}

// TableIndex returns the index of a component in the table. It returns -1 for common objects, and the length of the table for a user's
// component.
func TableIndex(name string) int {
	if name == Platform {
		return -1
	}
	if i := slices.IndexFunc(table, func(d definition) bool { return string(d.name) == name }); i >= 0 {
		return i
	}
	return len(table)
}

// OfProduct returns the product's components from the table, without declarations.
func OfProduct() []Component {
	components := make([]Component, len(table))
	for i, d := range table {
		components[i] = Component{Name: d.name, ObjectName: d.objectName, Chart: d.chart, Kind: d.kind, HasProductDefaults: d.preset}
	}
	return components
}
