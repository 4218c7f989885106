// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterKind describes the expected API of a kind of cluster. Test checks the API server against it.
type clusterKind struct {
	Kind     schema.GroupVersionKind
	CRD      string            // file of the CRD
	Accepted []string          // specs that the API server accepts
	Nulls    []string          // specs with null fields that the API server accepts even with server-side apply
	Refused  map[string]string // specs that the API server refuses, each with the error message
	// Changes are changes of a spec. Message is the API server's error, or "" if the API server accepts the change.
	Changes map[string]struct{ From, To, Message string }
	// Samples are files of resources: samples of the repository, and resources of users of the earlier operator.
	Samples   []string
	Scales    []string // numbers of replicas to which the cluster can be scaled, in order
	TooMany   string   // replicas that the scale subresource refuses, if any
	ShortName string
	Columns   []string
}

// Test checks the API server against the description.
func (c *clusterKind) Test(t *testing.T) {
	t.Helper()
	for name, test := range map[string]func(*testing.T){
		"specs": c.specs, "names": c.names, "changes": c.changes, "samples": c.samples,
		"scale": c.scale, "definition": c.definition,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func (c *clusterKind) resourceOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return newResource(t, c.Kind, name, spec)
}

func (c *clusterKind) specs(t *testing.T) {
	for _, spec := range c.Accepted {
		assert.NilError(t, api.Create(t.Context(), c.resourceOf(t, "a", spec), client.DryRunAll), "%s", spec)
	}
	for _, spec := range c.Nulls {
		assert.NilError(t, api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(c.resourceOf(t, "a", spec)), client.DryRunAll, client.FieldOwner("flux")), "%s", spec)
	}
	for spec, message := range c.Refused {
		assert.ErrorContains(t, api.Create(t.Context(), c.resourceOf(t, "a", spec), client.DryRunAll), message, "%s", spec)
	}
}

// The names of pods begin with the cluster's name. This name may have at most 44 characters.
func (c *clusterKind) names(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "a-1": true, "1a": false, "a.b": false, strings.Repeat("a", 44): true, strings.Repeat("a", 45): false,
	} {
		err := api.Create(t.Context(), c.resourceOf(t, name, "{}"), client.DryRunAll)
		assert.Equal(t, err == nil, ok, "%s: %v", name, err)
	}
}

func (c *clusterKind) changes(t *testing.T) {
	for name, change := range c.Changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := c.resourceOf(t, strings.ReplaceAll(strings.ToLower(name), " ", "-"), change.From)
			assert.NilError(t, api.Create(t.Context(), object))
			object.Object["spec"] = c.resourceOf(t, "", change.To).Object["spec"]
			err := api.Update(t.Context(), object)
			if change.Message == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, change.Message)
		})
	}
}

func (c *clusterKind) samples(t *testing.T) {
	for _, file := range c.Samples {
		assert.NilError(t, api.Create(t.Context(), readResource(t, file), client.DryRunAll), file)
		applied := readResource(t, file)
		assert.NilError(t, api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.DryRunAll, client.FieldOwner("kubectl")), "%s, server-side", file)
	}
}

// The scale subresource changes replicas, and refuses a number that the spec may not have.
func (c *clusterKind) scale(t *testing.T) {
	object := c.resourceOf(t, "scaled", "{}")
	assert.NilError(t, api.Create(t.Context(), object))
	for _, replicas := range c.Scales {
		scale := c.resourceOf(t, "scaled", "{replicas: "+replicas+"}")
		scale.SetAPIVersion("autoscaling/v1")
		scale.SetKind("Scale")
		assert.NilError(t, api.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scale)))
		assert.NilError(t, api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		got, _, err := unstructured.NestedFieldCopy(object.Object, "spec", "replicas")
		assert.NilError(t, err)
		assert.Equal(t, fmt.Sprint(got), replicas)
	}
	if c.TooMany != "" {
		scale := c.resourceOf(t, "scaled", "{replicas: "+c.TooMany+"}")
		scale.SetAPIVersion("autoscaling/v1")
		scale.SetKind("Scale")
		err := api.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scale))
		assert.ErrorContains(t, err, "spec.replicas")
	}
}

// The CRD has names, columns, subresources, and a description of each top-level field. The CRD takes at most half of the allowed size.
func (c *clusterKind) definition(t *testing.T) {
	crd := readCRD(t, c.CRD)
	version := crd.Spec.Versions[0]
	assert.DeepEqual(t, crd.Spec.Names.ShortNames, []string{c.ShortName})
	assert.DeepEqual(t, columns(crd), c.Columns)
	assert.Assert(t, version.Subresources.Status != nil)
	assert.Equal(t, version.Subresources.Scale.SpecReplicasPath, ".spec.replicas")
	crdFits(t, c.CRD, 50)
	for _, top := range []string{"spec", "status"} {
		for name, property := range version.Schema.OpenAPIV3Schema.Properties[top].Properties {
			assert.Assert(t, strings.HasPrefix(property.Description, name+" "), "%s.%s: %s", top, name, property.Description)
		}
	}
}
