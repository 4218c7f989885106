// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component turns the spec of a DataService into a graph: which
// components it declares, what each is called and how it runs, and which must
// be ready before which. It is pure.
package component

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// Component is one declared component.
type Component struct {
	Name       dsv1.ComponentName
	ObjectName string // name of its workload, Service and main ConfigMap
	Chart      string
	Kind       Kind
	Preset     bool // the microservice chart has product defaults for it

	// DependsOn are the components that must be ready before a new revision of this one
	// starts, in the order of the graph.
	DependsOn []dsv1.ComponentName

	Workload   *dsv1.Workload
	Middleware *dsv1.Middleware // nil for a service
	MySQL      *dsv1.MySQL      // nil but for mysql
}

// Graph is the declared components, each after everything it depends on.
type Graph struct {
	Components []Component
}

// Get returns the component of that name, or nil when it is not declared.
func (g *Graph) Get(name dsv1.ComponentName) *Component {
	for i := range g.Components {
		if g.Components[i].Name == name {
			return &g.Components[i]
		}
	}
	return nil
}

// FieldError is a contradiction in a spec.
type FieldError struct {
	Field   string // path, such as spec.auth.dependsOn
	Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// NewGraph reads the graph out of a spec. The error is a *FieldError: two components of one
// name, a dependency that is not declared, or a cycle.
func NewGraph(spec *dsv1.DataServiceSpec) (*Graph, error) {
	declared, err := declaredComponents(spec)
	if err != nil {
		return nil, err
	}
	if err := checkNames(declared); err != nil {
		return nil, err
	}
	if err := connect(declared); err != nil {
		return nil, err
	}
	ordered, err := order(declared)
	if err != nil {
		return nil, err
	}
	if spec.Rollout.Order == dsv1.OrderSequential {
		for i := 1; i < len(ordered); i++ {
			ordered[i].DependsOn = []dsv1.ComponentName{ordered[i-1].Name}
		}
	}
	return &Graph{Components: ordered}, nil
}

func declaredComponents(spec *dsv1.DataServiceSpec) ([]Component, error) {
	var found []Component
	for _, def := range table {
		d := def.spec(spec)
		if d.workload == nil {
			continue
		}
		c := Component{
			Name: def.name, ObjectName: d.workload.Name, Chart: def.chart, Kind: def.kind, Preset: def.preset,
			DependsOn: def.after, Workload: d.workload, Middleware: d.middleware, MySQL: d.mysql,
		}
		if c.ObjectName == "" {
			c.ObjectName = def.objectName
		}
		if c.Middleware != nil && c.Middleware.Kind != nil {
			var ok bool
			if c.Kind, ok = kindOf(*c.Middleware.Kind); !ok {
				return nil, &FieldError{fmt.Sprintf("spec.%s.kind", c.Name), fmt.Sprintf("there is no kind %s: it is %s", c.Middleware.Kind.String(), kindList)}
			}
		}
		if c.Kind == ThirdParty {
			c.Chart = ChartThirdParty
		}
		found = append(found, c)
	}
	return found, nil
}

// kinds in the order of their numbers.
var kinds = []Kind{Deployment, StatefulSet, DaemonSet, ThirdParty}

const kindList = "Deployment (or 0), StatefulSet (1), DaemonSet (2) or ThirdParty (3)"

func kindOf(k intstr.IntOrString) (Kind, bool) {
	if k.Type == intstr.String {
		return Kind(k.StrVal), slices.Contains(kinds, Kind(k.StrVal))
	}
	if k.IntVal < 0 || int(k.IntVal) >= len(kinds) {
		return "", false
	}
	return kinds[k.IntVal], true
}

func checkNames(components []Component) error {
	seen := map[string]dsv1.ComponentName{}
	for _, c := range components {
		if other, ok := seen[c.ObjectName]; ok {
			return &FieldError{fmt.Sprintf("spec.%s.name", c.Name),
				fmt.Sprintf("%q is already the name of spec.%s; components need names of their own", c.ObjectName, other)}
		}
		seen[c.ObjectName] = c.Name
		if c.Kind == ThirdParty && (c.Middleware.ThirdParty == nil || c.Middleware.ThirdParty.URL == "") {
			return &FieldError{fmt.Sprintf("spec.%s.thirdParty", c.Name), "kind ThirdParty needs the thirdParty block with the url of the middleware"}
		}
	}
	return nil
}

// connect completes each component's edges: services come after all middleware, then the
// table's own edges, then the user's. Edges of the table to components that are not declared
// vanish; those of the user are an error.
func connect(components []Component) error {
	isDeclared := func(name dsv1.ComponentName) bool {
		return slices.ContainsFunc(components, func(c Component) bool { return c.Name == name })
	}
	for i := range components {
		c := &components[i]
		var edges []dsv1.ComponentName
		for _, other := range components {
			if c.Middleware == nil && other.Middleware != nil || slices.Contains(c.DependsOn, other.Name) {
				edges = append(edges, other.Name)
			}
		}
		for _, name := range c.Workload.DependsOn {
			if !isDeclared(name) {
				return &FieldError{fmt.Sprintf("spec.%s.dependsOn", c.Name), fmt.Sprintf("%q is not declared", name)}
			}
			if !slices.Contains(edges, name) {
				edges = append(edges, name)
			}
		}
		c.DependsOn = edges
	}
	return nil
}

// order sorts components so that each comes after its dependencies, and otherwise in the
// order of the table.
func order(components []Component) ([]Component, error) {
	done := map[dsv1.ComponentName]bool{}
	ordered := make([]Component, 0, len(components))
	for len(ordered) < len(components) {
		next := slices.IndexFunc(components, func(c Component) bool {
			return !done[c.Name] && !slices.ContainsFunc(c.DependsOn, func(d dsv1.ComponentName) bool { return !done[d] })
		})
		if next < 0 {
			return nil, cycleError(components, done)
		}
		done[components[next].Name] = true
		ordered = append(ordered, components[next])
	}
	return ordered, nil
}

// cycleError names one cycle among the components that are not done; there is one, because
// each of them waits for another of them.
func cycleError(components []Component, done map[dsv1.ComponentName]bool) error {
	byName := map[dsv1.ComponentName]Component{}
	var at dsv1.ComponentName
	for _, c := range components {
		byName[c.Name] = c
		if at == "" && !done[c.Name] {
			at = c.Name
		}
	}
	var path []string
	for !slices.Contains(path, string(at)) {
		path = append(path, string(at))
		deps := byName[at].DependsOn
		at = deps[slices.IndexFunc(deps, func(d dsv1.ComponentName) bool { return !done[d] })]
	}
	cycle := append(path[slices.Index(path, string(at)):], string(at))
	culprit := at
	for _, name := range cycle {
		if len(byName[dsv1.ComponentName(name)].Workload.DependsOn) > 0 {
			culprit = dsv1.ComponentName(name)
			break
		}
	}
	return &FieldError{fmt.Sprintf("spec.%s.dependsOn", culprit), "components wait for one another: " + strings.Join(cycle, " -> ")}
}
