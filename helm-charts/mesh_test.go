// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/render"
)

// Meshes speak HTTP to a port whose name begins with http unless appProtocol says what it is, and guess the protocol of a port that
// says nothing: a database's server speaks first, so the connection would hang.
func TestPortsOfDatabasesNameTheirProtocol(t *testing.T) {
	t.Parallel()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	isHTTP := map[string]bool{"metrics": true}
	for chart, services := range map[string]int{"mysql": 1, "rediscluster": 2, "etcdcluster": 2} {
		v := map[string]any{"agentImage": "agent", "monitorImage": "exporter"}
		if chart != "rediscluster" {
			delete(v, "monitorImage")
		}
		rendered, err := renderer.Render(render.Release{Name: "data", Namespace: "data"}, []render.Part{{Name: "part", Chart: chart, Values: v}})
		assert.NilError(t, err)
		found := 0
		for _, obj := range rendered[0] {
			if obj.GetKind() != "Service" {
				continue
			}
			found++
			service := &corev1.Service{}
			assert.NilError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, service))
			for _, port := range service.Spec.Ports {
				want := "tcp"
				if isHTTP[port.Name] {
					want = "http"
				}
				assert.Assert(t, port.AppProtocol != nil && *port.AppProtocol == want, "%s %s, port %s", chart, service.Name, port.Name)
			}
		}
		assert.Equal(t, found, services, chart)
	}
}
