// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/metrics"
)

// ingressOf returns an Ingress of a class that belongs to the DataService of the same name.
func ingressOf(t *testing.T, name, class string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %[1]s, namespace: ns, "+
		"ownerReferences: [{apiVersion: d3os-product.com.d3os/v1, kind: DataService, name: %[1]s, uid: u, controller: true}]}, spec: {%[2]s}}", name, class))
}

func classOf(name string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// An Ingress is recorded if its class does not exist, and if the Engine can know this.
func TestAddClasses(t *testing.T) {
	t.Parallel()
	const nginx = "ingressClassName: nginx"
	for name, c := range map[string]struct {
		class, exists string
		sees          bool
		err           error
		want          bool
	}{
		"the class exists":                {nginx, "nginx", true, nil, false},
		"another class exists":            {nginx, "traefik", true, nil, true},
		"without a class":                 {"", "traefik", true, nil, false},
		"without the right":               {nginx, "traefik", false, nil, false},
		"the cache cannot be read":        {nginx, "nginx", true, errors.New("not now"), false},
		"no class, and without the right": {"", "nginx", false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.err != nil {
					return c.err
				}
				return w.Get(ctx, key, o, opts...)
			}}
			e := &Engine{client: interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(classOf(c.exists)).Build(), reads)}
			if c.sees {
				e.SeeClasses()
			}
			var state health.State
			e.addClasses(t.Context(), []*unstructured.Unstructured{parse(t, "{kind: Service}"), ingressOf(t, "web", c.class)}, &state)
			assert.Equal(t, state.Note.Culprit.Name == "web" && state.Note.Culprit.Reason == health.ReasonNoIngressClass, c.want, "%+v", state)
		})
	}
}

// A class that is created or deleted triggers a pass over each resource with an Ingress of this class, and over no other resource.
func TestUsersOfAClass(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		ingressOf(t, "a", "ingressClassName: nginx"), ingressOf(t, "b", "ingressClassName: traefik"), ingressOf(t, "c", ""), ingressOf(t, "d", "ingressClassName: nginx"),
	).Build()
	r := NewReconciler(actor{}, metrics.SeriesOf(t.Name()), Parts{Client: c, Engine: NewEngine(c, nil)})
	request := func(name string) ctrl.Request {
		return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
	}
	assert.DeepEqual(t, r.usersOf(t.Context(), classOf("nginx")), []ctrl.Request{request("a"), request("d")})
	assert.Equal(t, len(r.usersOf(t.Context(), classOf("other"))), 0)
}
