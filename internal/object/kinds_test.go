// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"d3os.com/d3os-operator/internal/object"
)

// The watches and the prune need every kind once; lists are read with List appended.
func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[schema.GroupVersionKind]bool{}
	for _, gvk := range object.Kinds {
		assert.Assert(t, !seen[gvk], "%s is there twice", gvk)
		assert.Assert(t, scheme.Scheme.Recognizes(gvk) && scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List")), "%s", gvk)
		assert.Equal(t, object.Empty(gvk).GroupVersionKind(), gvk)
		seen[gvk] = true
	}
}

// A RedisCluster and a DataService of one name share nothing.
func TestOwnersOfOneNameAreTold(t *testing.T) {
	t.Parallel()
	platform := object.Owner{
		GroupVersionKind: schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"},
		Namespace:        "a", Name: "platform", UID: "1",
	}
	redis := object.Owner{
		GroupVersionKind: schema.GroupVersionKind{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"},
		Namespace:        "a", Name: "platform", UID: "2",
	}
	for owner, other := range map[object.Owner]object.Owner{platform: redis, redis: platform} {
		o := object.Empty(object.ClaimKind)
		o.SetNamespace("a")
		labels := map[string]string{object.LabelInstance: owner.Name}
		if kind := owner.KindLabel(); kind != "" {
			labels[object.LabelKind] = kind
		}
		o.SetLabels(labels)
		assert.Assert(t, owner.Names(o))
		assert.Assert(t, !other.Names(o))
		assert.Equal(t, object.OwnerOf(owner.GroupKind(), o).Name, "platform")
		assert.Equal(t, object.OwnerOf(other.GroupKind(), o).Name, "")

		_, err := object.Finish(o, other) // the controller decides, whatever the labels say
		assert.NilError(t, err)
		assert.Equal(t, object.OwnerOf(other.GroupKind(), o).Name, "platform")
		assert.Assert(t, other.Controls(o) && !owner.Controls(o))
	}
	assert.Equal(t, platform.KindLabel(), "", "objects of DataServices of before carry no label")
}
