// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"d3os.com/d3os-operator/internal/object"
)

// refusing is an API server that refuses to list one kind (default: Services) in some namespaces, and does not serve
// the kind unserved.
type refusing struct {
	client.Reader

	namespaces     map[string]bool
	kind, unserved string
}

func (r refusing) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	namespace := (&client.ListOptions{}).ApplyOptions(options).Namespace
	gvk := list.GetObjectKind().GroupVersionKind()
	if gvk.Kind == r.unserved+"List" {
		return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	if r.namespaces[namespace] && gvk.Kind == cmp.Or(r.kind, "Service")+"List" {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errForbidden)
	}
	return nil
}

type textError string

func (e textError) Error() string { return string(e) }

const errForbidden = textError(`User "operator" cannot list resource "services" in the namespace`)

// metricsOf returns the labels and values of a gauge with one label.
func metricsOf(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	assert.NilError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			found[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return found
}

// If a right is missing in a namespace, the namespace is not watched, and a problem names it. If rights are missing in all namespaces, the
// operator watches all of them: an empty list would select the whole cluster.
func TestNamespacesWithoutRights(t *testing.T) {
	t.Parallel()
	api := refusing{namespaces: map[string]bool{"rights-b": true, "rights-c": true}}
	n, watched := newNamespaces(t.Context(), api, []string{"rights-a", "rights-b"})
	assert.DeepEqual(t, watched, []string{"rights-a"})
	assert.DeepEqual(t, n.Problems(), []string{
		`the operator does nothing in namespace rights-b: it cannot list resource "services" in the namespace; correct its Role or RoleBinding there, or --watch-namespaces`,
	})
	assert.DeepEqual(t, metricsOf(t, "d3os_operator_namespace_without_rights"), map[string]float64{"rights-b": 1})
	api.namespaces["rights-b"] = false
	assert.ErrorIs(t, n.await(t.Context(), time.Millisecond), ErrRights)
	n.close()
	assert.Equal(t, len(metricsOf(t, "d3os_operator_namespace_without_rights")), 0)

	_, watched = newNamespaces(t.Context(), api, []string{"rights-c"})
	assert.DeepEqual(t, watched, []string{"rights-c"})
	api.namespaces["rights-b"] = true
	n, watched = newNamespaces(t.Context(), api, []string{"rights-b", "rights-c"})
	assert.DeepEqual(t, watched, []string{"rights-b", "rights-c"})
	assert.Equal(t, len(n.Problems()), 2)
	n.close()
}

// The metric has the number of problems of each readiness check, and a problem that ends is no longer counted.
func TestProblemsAreCounted(t *testing.T) {
	t.Parallel()
	problems := []string{"a", "b"}
	r := &readiness{sources: map[string]func() []string{"count": func() []string { return problems }}, logged: map[string]time.Time{}}
	for range 3 {
		r.report(t.Context(), time.Now())
		assert.Equal(t, metricsOf(t, "d3os_operator_problems")["count"], float64(len(problems)))
		problems = problems[min(1, len(problems)):]
	}
}

// If the CRD of a kind is optional, the operator needs rights to the kind only while the API server serves it.
func TestRightsToOptionalKinds(t *testing.T) {
	t.Parallel()
	for _, gvk := range object.Optional {
		n := &namespaces{reader: refusing{namespaces: map[string]bool{"a": true}, kind: gvk.Kind}}
		assert.Assert(t, n.lacks(t.Context(), "a") != "", gvk.Kind)
		n.reader = refusing{namespaces: map[string]bool{"a": true}, kind: gvk.Kind, unserved: gvk.Kind}
		assert.Equal(t, n.lacks(t.Context(), "a"), "", gvk.Kind)
	}
}
