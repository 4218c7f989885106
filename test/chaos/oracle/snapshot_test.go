// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A write of the status does not change the version. A write of an annotation changes the version, although the generation stays.
func TestVersionOf(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(manager, subresource string, after time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: ptr.To(metav1.NewTime(began.Add(after)))}
	}
	object := func(version string, generation int64, entries ...metav1.ManagedFieldsEntry) string {
		return versionOf(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: version, Generation: generation, ManagedFields: entries,
		}})
	}
	own, status := entry("operator", "", 0), entry("controller", "status", 0)
	deployment := object("1", 1, own, status)
	assert.Equal(t, object("2", 1, own, entry("controller", "status", time.Minute)), deployment)
	assert.Assert(t, object("2", 2, own, status) != deployment)
	assert.Assert(t, object("2", 1, entry("operator", "", time.Minute), status) != deployment)
	assert.Assert(t, object("2", 1, own, entry("somebody", "", time.Minute), status) != deployment)

	claim := object("1", 0, own, status)
	assert.Equal(t, object("2", 0, own, entry("controller", "status", time.Minute)), claim)
	assert.Assert(t, object("2", 0, entry("operator", "", time.Minute), status) != claim)

	configMap := object("1", 0, own)
	assert.Assert(t, object("2", 0, own) != configMap)
}
