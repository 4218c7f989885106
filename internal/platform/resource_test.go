// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A RedisCluster whose data is deleted with it is marked if it replaces one that was ready. An existing RedisCluster is not changed.
func TestMarkReadyBefore(t *testing.T) {
	t.Parallel()
	since, earlier := metav1.Unix(100, 0), "1969-12-31T00:00:00Z"
	cluster := func(finalizers, mark string) *unstructured.Unstructured {
		o := object.Empty(object.Resources[0])
		o.SetName("redis")
		o.Object["spec"] = map[string]any{"finalizers": finalizers}
		if mark != "" {
			o.SetAnnotations(map[string]string{object.AnnotationReadyBefore: mark})
		}
		return o
	}
	running := []dsv1.ComponentStatus{{Name: "redis", Kind: managed, Phase: dsv1.PhaseRunning, Ready: 6, LastTransitionTime: &since}}
	for name, c := range map[string]struct {
		finalizers string
		live       *unstructured.Unstructured
		failure    error
		known      []dsv1.ComponentStatus
		want       string
	}{
		"a new component":                {"foreground", nil, nil, nil, ""},
		"it was ready":                   {"foreground", nil, nil, running, "1970-01-01T00:01:40Z"},
		"it was ready, the data is kept": {"retain", nil, nil, running, ""},
		"it exists":                      {"foreground", cluster("foreground", ""), nil, running, ""},
		"it exists, and is marked":       {"foreground", cluster("foreground", earlier), nil, running, earlier},
		"its kind is not served":         {"foreground", nil, &apply.NotServedError{}, running, ""},
	} {
		ds := &dsv1.DataService{Status: dsv1.DataServiceStatus{Components: c.known}}
		planned := cluster(c.finalizers, "")
		part := &reconcile.Part{Name: "redis", Objects: []*unstructured.Unstructured{planned}}
		in := reconcile.Inputs{Lookup: func(string, string) (*unstructured.Unstructured, error) { return c.live, c.failure }}
		assert.NilError(t, markReadyBefore(ds, part, in), name)
		assert.Equal(t, part.Objects[0].GetAnnotations()[object.AnnotationReadyBefore], c.want, name)
		assert.Equal(t, planned.GetAnnotations()[object.AnnotationReadyBefore], "", "%s: a shared object is changed", name)
	}
}
