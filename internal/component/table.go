// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"slices"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Kind is how a component runs.
type Kind string

// The kinds of a component. The API also takes their numbers, 0 to 3.
const (
	Deployment  Kind = "Deployment"
	StatefulSet Kind = "StatefulSet"
	DaemonSet   Kind = "DaemonSet"
	ThirdParty  Kind = "ThirdParty"
)

// The charts that components are rendered from.
const (
	ChartMicroservice = "microservice"
	ChartMySQL        = "mysql"
	ChartEureka       = "eureka"
	ChartThirdParty   = "third-party"
)

// The components that others refer to by name.
const (
	MySQL         dsv1.ComponentName = "mysql"
	UUC           dsv1.ComponentName = "uuc"
	Eureka        dsv1.ComponentName = "eureka"
	Proxy         dsv1.ComponentName = "proxy"
	GatewayMaster dsv1.ComponentName = "gateway-master"
)

// definition is one row of the component table: what is fixed about a component.
type definition struct {
	name       dsv1.ComponentName
	objectName string
	chart      string
	kind       Kind                 // default kind
	preset     bool                 // the microservice chart has product defaults for it
	after      []dsv1.ComponentName // edges beyond "middleware before services"
	spec       func(*dsv1.DataServiceSpec) declared
}

// declared is what the spec says of one component; workload is nil when it says nothing.
type declared struct {
	workload   *dsv1.Workload
	middleware *dsv1.Middleware // nil for a service
	mysql      *dsv1.MySQL      // nil but for mysql
}

// table lists every component in the order in which people name them.
// Adding a component is a row here, its field in the API and its chart.
var table = []definition{
	{name: MySQL, objectName: "mysql-dataservice", chart: ChartMySQL, kind: StatefulSet,
		spec: func(s *dsv1.DataServiceSpec) declared {
			if s.MySQL == nil {
				return declared{}
			}
			return declared{&s.MySQL.Workload, &s.MySQL.Middleware, s.MySQL}
		}},
	{name: UUC, objectName: "uuc", chart: ChartMicroservice, kind: ThirdParty,
		spec: func(s *dsv1.DataServiceSpec) declared { return middleware(s.UUC) }},
	{name: Eureka, objectName: "eureka", chart: ChartEureka, kind: Deployment,
		spec: func(s *dsv1.DataServiceSpec) declared { return middleware(s.Eureka) }},
	product("api-manager", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.APIManager }),
	product("auth", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.Auth }),
	product("ds-adapter", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.DSAdapter }),
	product("es-adapter", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.ESAdapter }),
	product("trd-adapter", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.TRDAdapter }),
	product(GatewayMaster, func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.GatewayMaster }),
	product("gateway-web", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.GatewayWeb }),
	product(Proxy, func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.Proxy }),
	// nginx resolves the names of its upstreams when it starts.
	product("web", func(s *dsv1.DataServiceSpec) *dsv1.Service { return s.Web }, Proxy, GatewayMaster),
}

// product is the row of a service with defaults in the microservice chart.
func product(name dsv1.ComponentName, get func(*dsv1.DataServiceSpec) *dsv1.Service, after ...dsv1.ComponentName) definition {
	return definition{
		name: name, objectName: string(name), chart: ChartMicroservice, kind: Deployment, preset: true, after: after,
		spec: func(s *dsv1.DataServiceSpec) declared {
			if svc := get(s); svc != nil {
				return declared{workload: &svc.Workload}
			}
			return declared{}
		},
	}
}

func middleware(m *dsv1.Middleware) declared {
	if m == nil {
		return declared{}
	}
	return declared{workload: &m.Workload, middleware: m}
}

// Position is the place of a component in the table, by name; -1 for an unknown one.
func Position(name string) int {
	return slices.IndexFunc(table, func(d definition) bool { return string(d.name) == name })
}
