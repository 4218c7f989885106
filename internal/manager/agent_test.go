// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The agent is in the operator's own image, regardless of how the image was set.
func TestTheAgentIsInTheOperatorsImage(t *testing.T) {
	t.Parallel()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "proxy", Image: "mesh"}, {Name: "manager", Image: "registry.example/operator@sha256:1"}}}}
	for name, test := range map[string]struct {
		images, env map[string]string
		pods        []corev1.Pod
		status      int
		want, err   string
	}{
		"its own":       {nil, map[string]string{"POD_NAMESPACE": "system", "POD_NAME": "operator-1"}, []corev1.Pod{pod}, 200, "registry.example/operator@sha256:1", ""},
		"given":         {map[string]string{"agent": "mine"}, map[string]string{"POD_NAMESPACE": "system", "POD_NAME": "operator-1"}, nil, 500, "mine", ""},
		"without a pod": {map[string]string{"mysql": "m"}, nil, nil, 500, "unknown", ""},
		"no such pod":   {nil, map[string]string{"POD_NAMESPACE": "system", "POD_NAME": "operator-1"}, nil, 200, "", "pod system/operator-1"},
		"not allowed":   {nil, map[string]string{"POD_NAMESPACE": "system", "POD_NAME": "operator-1"}, nil, 403, "", "read the operator's pod system/operator-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Check(t, r.URL.Path == "/api/v1/namespaces/system/pods" && r.URL.Query().Get("fieldSelector") == "metadata.name=operator-1", r.URL)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: test.pods})
			}))
			defer server.Close()
			images, err := withAgent(t.Context(), &rest.Config{Host: server.URL}, test.images, func(name string) string { return test.env[name] })
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, images["agent"], test.want)
			assert.Equal(t, images["mysql"], test.images["mysql"])
		})
	}
}
