// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
)

func specOf(t *testing.T, text string) *dsv1.DataServiceSpec {
	t.Helper()
	spec := &dsv1.DataServiceSpec{}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(text), spec))
	return spec
}

const everything = `{
	mysql: {}, eureka: {}, uuc: {thirdParty: {url: "http://a"}}, web: {}, proxy: {}, gateway-web: {}, gateway-master: {}, trd-adapter: {},
	es-adapter: {}, ds-adapter: {}, auth: {}, api-manager: {}, `

// edges prints a graph: each component, and the components for which it waits.
func edges(g *Graph) []string {
	lines := []string{}
	for _, c := range g.Components {
		names := make([]string, len(c.WaitsFor))
		for i, d := range c.WaitsFor {
			names[i] = string(d)
		}
		lines = append(lines, strings.TrimSpace(string(c.Name)+" <- "+strings.Join(names, " ")))
	}
	return lines
}

func TestGraph(t *testing.T) {
	t.Parallel()
	const middleware = " <- mysql uuc eureka"
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"nothing": {"{}", []string{}},
		"everything": {everything + "}", []string{
			"mysql <-", "uuc <-", "eureka <-", "api-manager" + middleware, "auth" + middleware, "ds-adapter" + middleware, "es-adapter" + middleware,
			"trd-adapter" + middleware, "gateway-master" + middleware, "gateway-web" + middleware, "proxy" + middleware,
			"web" + middleware + " gateway-master proxy",
		}},
		"services wait for the middleware that is declared": {"{proxy: {}, eureka: {}}", []string{"eureka <-", "proxy <- eureka"}},
		"web alone": {"{web: {}}", []string{"web <-"}},
		"web waits for the upstreams that are declared": {"{web: {}, proxy: {}}", []string{"proxy <-", "web <- proxy"}},
		"middleware may wait for middleware": {"{mysql: {dependsOn: [eureka]}, eureka: {}, uuc: {dependsOn: [mysql], thirdParty: {url: x}}}", []string{
			"eureka <-", "mysql <- eureka", "uuc <- mysql",
		}},
		"services may wait for services": {"{auth: {dependsOn: [web, proxy]}, web: {}, proxy: {}}", []string{
			"proxy <-", "web <- proxy", "auth <- web proxy",
		}},
		"a repeated dependency counts once": {"{mysql: {}, auth: {dependsOn: [mysql, mysql]}}", []string{"mysql <-", "auth <- mysql"}},
		"order Sequential": {"{rollout: {order: Sequential}, mysql: {}, eureka: {}, auth: {}, web: {}}", []string{
			"mysql <-", "eureka <- mysql", "auth <- eureka", "web <- auth",
		}},
		"order Sequential, in the user's order": {"{rollout: {order: Sequential}, mysql: {dependsOn: [eureka]}, eureka: {}, auth: {dependsOn: [web]}, web: {}}", []string{
			"eureka <-", "mysql <- eureka", "web <- mysql", "auth <- web",
		}},
		"additional services wait only for their dependsOn": {"{mysql: {}, eureka: {}, proxy: {}, additionalServices: [{name: b, dependsOn: [c]}, {name: c, dependsOn: [mysql]}, {name: a}]}", []string{
			"mysql <-", "eureka <-", "proxy <- mysql eureka", "c <- mysql", "b <- c", "a <-",
		}},
		"services depend on additional services": {"{web: {dependsOn: [a]}, additionalServices: [{name: a}]}", []string{"a <-", "web <- a"}},
		"cron jobs come last":                    {"{cronJobs: [{name: j, dependsOn: [a, mysql]}], additionalServices: [{name: a}], mysql: {}}", []string{"mysql <-", "a <-", "j <- a mysql"}},
		"order Dependency, set explicitly":       {"{rollout: {order: Dependency}, mysql: {}, eureka: {}}", []string{"mysql <-", "eureka <-"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := NewGraph(specOf(t, test.spec))
			assert.NilError(t, err)
			assert.DeepEqual(t, edges(g), test.want)
		})
	}
}

func TestContradictions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, field, message string }{
		"a dependency that is not declared": {
			"{auth: {dependsOn: [proxy]}}", "spec.auth.dependsOn", `"proxy" is not declared: declare it in the spec, or remove it here`,
		},
		"a dependency that no component has": {
			"{auth: {dependsOn: [oracle]}, proxy: {}}", "spec.auth.dependsOn", `"oracle" is not declared: declare it in the spec, or remove it here; declared are proxy`,
		},
		"a cycle of one": {
			"{auth: {dependsOn: [auth]}}", "spec.auth.dependsOn", "components wait for one another: auth -> auth: remove one of these components from dependsOn",
		},
		"a cycle of two": {
			"{auth: {dependsOn: [proxy]}, proxy: {dependsOn: [auth]}}", "spec.auth.dependsOn", "components wait for one another: auth -> proxy -> auth: remove one of these components from dependsOn",
		},
		"a cycle of three": {
			"{auth: {dependsOn: [ds-adapter]}, ds-adapter: {dependsOn: [proxy]}, proxy: {dependsOn: [auth]}}", "spec.auth.dependsOn",
			"components wait for one another: auth -> ds-adapter -> proxy -> auth: remove one of these components from dependsOn",
		},
		"a cycle of middleware and service": {
			"{mysql: {dependsOn: [auth]}, auth: {}}", "spec.mysql.dependsOn", "components wait for one another: mysql -> auth -> mysql: remove one of these components from dependsOn",
		},
		"the error names the user's edge, not the table's": {
			"{proxy: {dependsOn: [web]}, web: {}}", "spec.proxy.dependsOn", "components wait for one another: proxy -> web -> proxy: remove one of these components from dependsOn",
		},
		"a component that waits for a cycle": {
			"{auth: {dependsOn: [web]}, proxy: {dependsOn: [web]}, web: {}}", "spec.proxy.dependsOn", "components wait for one another: web -> proxy -> web: remove one of these components from dependsOn",
		},
		"order Sequential": {
			"{rollout: {order: Sequential}, mysql: {dependsOn: [auth]}, auth: {}}", "spec.mysql.dependsOn", "components wait for one another: mysql -> auth -> mysql: remove one of these components from dependsOn",
		},
		"the same name": {
			"{auth: {name: a}, proxy: {name: a}}", "spec.proxy.name", `must be unique: "a" is already the name of spec.auth`,
		},
		"the default name of another component": {
			"{mysql: {}, web: {name: mysql-dataservice}}", "spec.web.name", `must be unique: "mysql-dataservice" is already the name of spec.mysql`,
		},
		"the name of a built-in component that is not declared": {
			"{additionalServices: [{name: mysql}]}", "spec.additionalServices[mysql].name", `"mysql" is the name of a built-in component, or reserved: choose another name`,
		},
		"the name of the shared objects": {
			"{cronJobs: [{name: platform}]}", "spec.cronJobs[platform].name", `"platform" is the name of a built-in component, or reserved: choose another name`,
		},
		"a service and a cron job with one name": {
			"{additionalServices: [{name: a}], cronJobs: [{name: a}]}", "spec.cronJobs[a].name", `must be unique: "a" is already the name of spec.additionalServices[a]`,
		},
		"the object name of another component": {
			"{auth: {name: a}, additionalServices: [{name: a}]}", "spec.additionalServices[a].name", `must be unique: "a" is already the name of spec.auth`,
		},
		"a cycle of additional services": {
			"{additionalServices: [{name: a, dependsOn: [b]}, {name: b, dependsOn: [a]}]}", "spec.additionalServices[a].dependsOn", "components wait for one another: a -> b -> a: remove one of these components from dependsOn",
		},
		"uuc without a url, a third party by default": {
			"{uuc: {}}", "spec.uuc.thirdParty", "must be set for kind ThirdParty, with the url of the middleware",
		},
		"an unknown number of a kind": {
			"{eureka: {kind: 7}}", "spec.eureka.kind", "must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3), not '7'",
		},
		"an unknown kind": {
			"{mysql: {kind: Job}}", "spec.mysql.kind", "must be Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3), not 'Job'",
		},
		"no url": {
			"{eureka: {kind: 3, thirdParty: {}}}", "spec.eureka.thirdParty", "must be set for kind ThirdParty, with the url of the middleware",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewGraph(specOf(t, test.spec))
			var field *render.Error
			assert.Assert(t, errors.As(err, &field), "%v", err)
			assert.Equal(t, *field, render.Error{Field: test.field, Message: test.message})
			assert.Error(t, err, test.field+": "+test.message)
		})
	}
}

// The spec gives a kind by name or by number.
func TestKinds(t *testing.T) {
	t.Parallel()
	kinds := []Kind{Deployment, StatefulSet, DaemonSet, ThirdParty}
	for name, of := range map[dsv1.ComponentName]struct {
		chart    string
		defaults Kind
	}{
		MySQL: {ChartMySQL, StatefulSet}, UUC: {ChartMicroservice, ThirdParty}, Eureka: {ChartEureka, Deployment},
	} {
		given := map[string]Kind{"null": of.defaults}
		for number, kind := range kinds {
			given[string(kind)], given[fmt.Sprint(number)] = kind, kind
		}
		for text, kind := range given {
			spec := fmt.Sprintf("{%s: {kind: %s, thirdParty: {url: 'http://a'}}}", name, text)
			g, err := NewGraph(specOf(t, spec))
			assert.NilError(t, err)
			want := of.chart
			if kind == ThirdParty {
				want = ChartThirdParty
			}
			assert.Equal(t, g.Get(name).Kind, kind, spec)
			assert.Equal(t, g.Get(name).Chart, want, spec)
		}
	}
}
