// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
)

// While a part is held back, its Service keeps its node port, although another part needs the port. The Service releases the
// port only if its own part waits for that other part. A Service never releases a port that its plan contains.
func TestHeldPartKeepsItsNodePort(t *testing.T) {
	t.Parallel()
	service := func(name, node string) *unstructured.Unstructured {
		return parse(t, "{apiVersion: v1, kind: Service, metadata: {name: "+name+", namespace: ns, uid: "+name+", annotations: {d3os-product.com.d3os/digest: a"+node+"}, "+
			"labels: {app.kubernetes.io/component: "+name+"}, ownerReferences: [{apiVersion: v1, kind: ReplicationController, name: book, uid: uid, controller: true}]}, "+
			"spec: {type: NodePort, ports: [{name: http, port: 80, nodePort: "+node+"}]}}")
	}
	const keeps = "free node port 31000 for Service a: the Service b keeps the port until the operator may change component b"
	for name, test := range map[string]struct {
		hold  bool
		after []string
		node  string // the planned node port of b
		wrote bool
		want  string
	}{
		"the part may be changed":           {false, nil, "31001", true, ""},
		"the owner waits for a turn":        {true, nil, "31001", false, keeps},
		"the part waits for a third part":   {false, []string{"c"}, "31001", false, keeps},
		"the part waits for the other part": {false, []string{"a"}, "31001", true, ""},
		"the part waits for it indirectly":  {false, []string{"d"}, "31001", true, ""},
		"the plan keeps the port":           {false, nil, "31000", false, ""},
	} {
		wrote := false
		live := service("b", "31000")
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(live.DeepCopy()).Build(), interceptor.Funcs{
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				wrote = true
				return nil
			},
		})
		types, err := apply.NewTypes(crd.Files)
		assert.NilError(t, err)
		wanted := service("a", "31000")
		plan := &Plan{Parts: []Part{
			{Name: "a", Revision: "r", Objects: []*unstructured.Unstructured{wanted}}, {Name: "c"}, {Name: "d", After: []string{"a"}},
			{Name: "b", Revision: "r", Known: "q", After: test.after, Objects: []*unstructured.Unstructured{service("b", test.node)}},
		}}
		p := &pass{
			Engine: NewEngine(c, apply.New(c, c, types, "1.2.3")), owner: book, plan: plan, owned: []*unstructured.Unstructured{live}, hold: test.hold,
			recorder: quiet{},
		}
		assert.Assert(t, p.portsMove(), name)
		err = p.clearNodePorts(t.Context(), &plan.Parts[0], wanted)
		if test.want != "" {
			assert.Error(t, err, test.want, name)
		} else {
			assert.NilError(t, err, name)
		}
		after, err := p.applier.Get(t.Context(), live)
		assert.NilError(t, err)
		assert.Equal(t, wrote || nodePorts(after)[0] != 31000, test.wrote, name)
	}
}

type quiet struct{}

func (quiet) Record(context.Context, Event) {}
