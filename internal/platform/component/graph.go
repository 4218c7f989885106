// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component computes a graph from the spec of a DataService: the declared components, their names and kinds, and the order in which
// they must become ready. It is pure.
package component

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
)

// Component is one declared component.
type Component struct {
	Name               dsv1.ComponentName
	ObjectName         string // name of its workload, Service and main ConfigMap
	Chart              string
	Kind               Kind
	HasProductDefaults bool   // the microservice chart has product defaults for it
	Path               string // path in the spec, such as spec.auth

	// Requires are the components that this component needs, in the order of the graph.
	Requires []dsv1.ComponentName
	// Calls are additional components to which this component connects at run time.
	Calls []dsv1.ComponentName
	// WaitsFor are the components that must be ready before a new revision of this component starts. They are the
	// components in Requires or, if components start one at a time, only the previous component.
	WaitsFor []dsv1.ComponentName

	// ChecksMembers adds a template of Jobs to the component's objects. Such a Job checks whether a single MySQL server
	// can become several members.
	ChecksMembers bool

	Declaration // the component's part of the spec
}

// Graph holds the declared components. Each comes after all its dependencies.
type Graph struct {
	Components []Component
}

// Get returns the component with a name, or nil if it is not declared.
func (g *Graph) Get(name dsv1.ComponentName) *Component {
	for i := range g.Components {
		if g.Components[i].Name == name {
			return &g.Components[i]
		}
	}
	return nil
}

// Callers returns the components that connect to the component with a name.
func (g *Graph) Callers(name dsv1.ComponentName) []dsv1.ComponentName {
	var callers []dsv1.ComponentName
	for i := range g.Components {
		if c := &g.Components[i]; slices.Contains(c.Requires, name) || slices.Contains(c.Calls, name) {
			callers = append(callers, c.Name)
		}
	}
	return callers
}

// NewGraph computes the graph of a spec. It returns a *render.Error for a duplicate name, an undeclared dependency, or a cycle.
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
	for i := range ordered {
		ordered[i].WaitsFor = ordered[i].Requires
		if spec.Rollout.Order == dsv1.OrderSequential && i > 0 {
			ordered[i].WaitsFor = []dsv1.ComponentName{ordered[i-1].Name}
		}
	}
	return &Graph{Components: ordered}, nil
}

func declaredComponents(spec *dsv1.DataServiceSpec) ([]Component, error) {
	var found []Component
	for _, def := range table {
		d := def.spec(spec)
		if d.Fields == nil {
			continue
		}
		c := Component{
			Name: def.name, ObjectName: d.Name, Chart: def.chart, Kind: def.kind, HasProductDefaults: def.preset,
			Path: "spec." + string(def.name), Requires: def.after, Calls: def.calls, Declaration: d,
		}
		if c.ObjectName == "" {
			c.ObjectName = def.objectName
		}
		if err := c.setKind(); err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	return append(found, userDeclared(spec)...), nil
}

// setKind sets the kind of middleware. For a Redis, etcd or MongoDB outside of the cluster, it also sets another object
// name: the usual name may still belong to the resource of kind Managed, which stays until the platform no longer needs
// it.
func (c *Component) setKind() error {
	switch {
	case c.Redis != nil && c.Redis.Kind != "":
		c.Kind = Kind(c.Redis.Kind)
	case c.Etcd != nil && c.Etcd.Kind != "":
		c.Kind = Kind(c.Etcd.Kind)
	case c.MongoDB != nil && c.MongoDB.Kind != "":
		c.Kind = Kind(c.MongoDB.Kind)
	case c.Middleware == nil:
		return nil
	case c.Middleware.Kind != nil:
		var ok bool
		if c.Kind, ok = kindOf(*c.Middleware.Kind); !ok {
			return render.FieldError(c.Path+".kind", "must be %s, not '%s'", kindList, c.Middleware.Kind.String())
		}
	case c.Name == Eureka && c.Workload.Replica != nil && *c.Workload.Replica > 1:
		c.Kind = StatefulSet // registries address each other by names that only pods of a StatefulSet have
	}
	if c.MySQL != nil && c.MySQL.IsReplicated() {
		if c.Kind != StatefulSet {
			return render.FieldError(c.Path+".kind", "must be StatefulSet if replica is above 1 or replication is set")
		}
		c.Kind, c.Chart = Managed, ChartReplicated
	}
	if c.Kind == ThirdParty {
		c.Chart = ChartThirdParty
		if c.IsResource() {
			c.ObjectName += "-external"
		}
	}
	return nil
}

// kinds lists the kinds in the order of their numbers.
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

// isUsers reports whether a component is declared by the user, and is not part of the product.
func (c *Component) isUsers() bool {
	return c.Middleware == nil && !c.IsResource() && !c.HasProductDefaults
}

// newer lists the components whose names a user's service may have, if the spec does not declare the component. The
// service may have got its name before the spec had a field for the component.
var newer = []dsv1.ComponentName{Redis, Etcd, MongoDB}

// checkNames refuses a user's component with the name of a built-in component, two components with the same name or the
// same object name, and a third party without a URL.
func checkNames(components []Component) error {
	names, objects := map[dsv1.ComponentName]string{}, map[string]string{}
	for _, c := range components {
		if c.isUsers() && !slices.Contains(newer, c.Name) && TableIndex(string(c.Name)) < len(table) {
			return render.FieldError(c.Path+".name", "%q is the name of a built-in component, or reserved: choose another name", c.Name)
		}
		if other, ok := names[c.Name]; ok {
			return render.FieldError(c.Path+".name", "must be unique: %q is already the name of %s", c.Name, other)
		}
		if other, ok := objects[c.ObjectName]; ok {
			return render.FieldError(c.Path+".name",
				"must be unique: %q is already the name of %s", c.ObjectName, other)
		}
		names[c.Name], objects[c.ObjectName] = c.Path, c.Path
		if c.Kind == ThirdParty && (c.ThirdParty == nil || c.ThirdParty.URL == "") {
			return render.FieldError(c.Path+".thirdParty", "must be set for kind ThirdParty, with the url of the middleware")
		}
	}
	return nil
}

// connect sets the edges of each component: from services of the product to all middleware, the edges in the table, and
// the user's edges. An edge of the table to an undeclared component is dropped. A user's edge to an undeclared component
// is an error.
func connect(components []Component) error {
	isDeclared := func(name dsv1.ComponentName) bool {
		return slices.ContainsFunc(components, func(c Component) bool { return c.Name == name })
	}
	for i := range components {
		c := &components[i]
		var edges []dsv1.ComponentName
		for _, other := range components {
			if c.HasProductDefaults && other.Middleware != nil || slices.Contains(c.Requires, other.Name) {
				edges = append(edges, other.Name)
			}
		}
		for _, name := range c.DependsOn {
			if !isDeclared(name) {
				return render.FieldError(c.Path+".dependsOn", "%q is not declared: declare it in the spec, or remove it here%s", name, declaredBut(components, c.Name))
			}
			if !slices.Contains(edges, name) {
				edges = append(edges, name)
			}
		}
		c.Requires = edges
	}
	return nil
}

// declaredBut returns the end of a sentence with the names of all components except one; "" if there is no other.
func declaredBut(components []Component, one dsv1.ComponentName) string {
	var names []string
	for _, c := range components {
		if c.Name != one {
			names = append(names, string(c.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; declared are " + strings.Join(names, ", ")
}

// order sorts components so that each comes after its dependencies. Otherwise it keeps the order of the table.
func order(components []Component) ([]Component, error) {
	done := map[dsv1.ComponentName]bool{}
	ordered := make([]Component, 0, len(components))
	for len(ordered) < len(components) {
		next := slices.IndexFunc(components, func(c Component) bool {
			return !done[c.Name] && !slices.ContainsFunc(c.Requires, func(d dsv1.ComponentName) bool { return !done[d] })
		})
		if next < 0 {
			return nil, cycleError(components, done)
		}
		done[components[next].Name] = true
		ordered = append(ordered, components[next])
	}
	return ordered, nil
}

// cycleError returns an error that names one cycle among the components that are not done. A cycle must exist, because
// each of these components waits for another one of them.
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
		deps := byName[at].Requires
		at = deps[slices.IndexFunc(deps, func(d dsv1.ComponentName) bool { return !done[d] })]
	}
	cycle := append(path[slices.Index(path, string(at)):], string(at))
	culprit := at
	for _, name := range cycle {
		if len(byName[dsv1.ComponentName(name)].DependsOn) > 0 {
			culprit = dsv1.ComponentName(name)
			break
		}
	}
	return render.FieldError(byName[culprit].Path+".dependsOn", "components wait for one another: %s: remove one of these components from dependsOn", strings.Join(cycle, " -> "))
}
