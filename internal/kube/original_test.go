// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"d3os.com/d3os-operator/internal/object"
)

// From an object with the original operator's label, the cache keeps only the metadata that identifies the owner. It
// also keeps this operator's digest: a user may have set that label on an object of this operator.
func TestOriginalsAreSlim(t *testing.T) {
	t.Parallel()
	of := func(annotations map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "web", Labels: map[string]string{object.LabelOriginal: "platform"}, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{Name: "platform"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "any"}},
		}}
	}
	for _, test := range []struct{ annotations, want map[string]string }{
		{map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}, nil},
		{map[string]string{object.AnnotationDigest: "d", "more": "more"}, map[string]string{object.AnnotationDigest: "d"}},
	} {
		slim, err := slimOriginal(of(test.annotations))
		assert.NilError(t, err)
		want := of(test.want)
		want.ManagedFields = nil
		assert.DeepEqual(t, slim, want)
	}
}
