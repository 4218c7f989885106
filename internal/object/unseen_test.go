// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// A Secret that exists is never reported as lost, unless it belongs to another owner.
func TestUnseenSecret(t *testing.T) {
	t.Parallel()
	owner := Owner{GroupVersionKind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Cache"}, Namespace: "data", Name: "a", UID: "uid"}
	lost := errors.New("lost")
	const (
		name    = "app.kubernetes.io/instance: a, d3os-product.com.d3os/kind: cache.g"
		written = "annotations: {d3os-product.com.d3os/digest: x}"
	)
	for about, c := range map[string]struct{ metadata, want string }{
		"no Secret":                           {"", "lost"},
		"without the operator's label":        {"labels: {" + name + "}, " + written, ""},
		"with its controller":                 {"ownerReferences: [{controller: true, uid: uid}]", ""},
		"without labels":                      {written, "unlabelled"},
		"restored by a user":                  {"name: a-credentials", "unlabelled"},
		"restored, with a part of its labels": {"labels: {" + name + "}", "unlabelled"},
		"managed by another tool":             {"labels: {" + name + ", app.kubernetes.io/managed-by: Helm}, " + written, "unlabelled"},
		"controlled by another resource":      {"ownerReferences: [{controller: true, uid: other}]", "lost"},
		"of another resource":                 {"labels: {app.kubernetes.io/instance: b}, " + written, "lost"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			var secret *unstructured.Unstructured
			if c.metadata != "" {
				secret = &unstructured.Unstructured{}
				assert.NilError(t, yaml.Unmarshal([]byte("{kind: Secret, apiVersion: v1, metadata: {"+c.metadata+"}}"), secret))
			}
			found, err := UnseenSecret(owner, func(string, string) (*unstructured.Unstructured, error) { return secret, nil }, "a-credentials", lost)
			switch c.want {
			case "lost":
				assert.Equal(t, err, lost)
			case "unlabelled":
				assert.Error(t, err, "Secret a-credentials exists, but its labels do not name Cache a, so the operator generates no new Secret: "+
					"if this Secret has the values that the servers use, run kubectl label secret --overwrite -n data a-credentials app.kubernetes.io/instance=a "+
					"app.kubernetes.io/managed-by=d3os-operator d3os-product.com.d3os/kind=cache.g; if not, restore the Secret from a backup")
			default:
				assert.NilError(t, err)
				assert.Equal(t, found, secret)
			}
		})
	}
	_, err := UnseenSecret(owner, func(string, string) (*unstructured.Unstructured, error) { return nil, errors.ErrUnsupported }, "a-credentials", lost)
	assert.Equal(t, err, errors.ErrUnsupported)
}
