// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Labels alone make no object the owner's: anybody can write them.
func TestOwns(t *testing.T) {
	t.Parallel()
	owner := Owner{GroupVersionKind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}, Namespace: "n", Name: "a", UID: "1"}
	other := owner
	other.Name = "b"
	controlledBy := func(uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "Thing", Name: "a", UID: "1"}, {Kind: "Thing", Name: "a", UID: "0", Controller: ptr.To(uid == "0")}, {
			Kind: "Thing", Name: "a", UID: "1", Controller: ptr.To(uid == "1")}}
	}
	written := map[string]string{AnnotationDigest: "d"}
	foreign := owner.Labels("p")
	foreign[LabelManagedBy] = "helm"
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		owns   bool
	}{
		"controlled":                            {metav1.ObjectMeta{OwnerReferences: controlledBy("1")}, true},
		"of an earlier resource of the name":    {metav1.ObjectMeta{OwnerReferences: controlledBy("0"), Labels: owner.Labels("p"), Annotations: written}, false},
		"kept":                                  {metav1.ObjectMeta{Labels: owner.Labels("p"), Annotations: map[string]string{AnnotationPolicy: PolicyKeep}}, true},
		"without its owner reference":           {metav1.ObjectMeta{Labels: owner.Labels("p"), Annotations: written}, true},
		"labels alone":                          {metav1.ObjectMeta{Labels: owner.Labels("p")}, false},
		"of another resource":                   {metav1.ObjectMeta{Labels: other.Labels("p"), Annotations: written}, false},
		"of another operator":                   {metav1.ObjectMeta{Labels: foreign, Annotations: written}, false},
		"an owner reference without controller": {metav1.ObjectMeta{OwnerReferences: controlledBy("")}, false},
	} {
		assert.Equal(t, owner.Owns(&c.object), c.owns, name)
	}
}
