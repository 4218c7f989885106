// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

func backupOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return newResource(t, backupv1.GroupVersion.WithKind(backupv1.KindDataBackup), name, spec)
}

func TestBackups(t *testing.T) {
	t.Parallel()
	for spec, kind := range map[string]string{
		"{of: {name: platform}}": "DataService", "{of: {kind: DataService, name: platform, component: mysql}}": "DataService",
		"{of: {kind: EtcdCluster, name: platform}}": "EtcdCluster", "{of: {kind: RedisCluster, name: platform, component: redis}}": "RedisCluster",
	} {
		object := backupOf(t, "a", spec)
		assert.NilError(t, api.Create(t.Context(), object, client.DryRunAll), spec)
		of, _, err := unstructured.NestedStringMap(object.Object, "spec", "of")
		assert.NilError(t, err)
		assert.Equal(t, of["kind"], kind)
		assert.Equal(t, of["name"], "platform")
		generation, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		assert.NilError(t, err)
		assert.Equal(t, generation, int64(-1))
	}
	for spec, message := range map[string]string{
		"{}": "spec.of", "{of: {}}": "spec.of.name", "{of: {name: ''}}": "spec.of.name",
		"{of: {name: a, kind: Secret}}":      `supported values: "DataService"`,
		"{of: {name: a, component: eureka}}": "spec.of.component",
		"{of: {name: a, component: redis}}":  "must be mysql for a DataService", "{of: {name: a, kind: EtcdCluster, component: mysql}}": "etcd for an EtcdCluster",
		"{of: {name: a}, run: rm}": "unknown field",
	} {
		assert.ErrorContains(t, api.Create(t.Context(), backupOf(t, "a", spec), client.DryRunAll), message, spec)
	}
}

// Argo CD and Flux apply server-side. A server-side apply refuses null for fields that are not nullable.
func TestNullOfABackupServerSide(t *testing.T) {
	t.Parallel()
	for _, object := range []*unstructured.Unstructured{
		backupOf(t, "a", "{of: {name: a, kind: null, component: null}}"), backupOf(t, "a", "{of: {kind: EtcdCluster, name: a, component: null}}"),
		newResource(t, backupv1.GroupVersion.WithKind(backupv1.KindDataRestore), "a", "{of: {name: a, component: null}}"),
	} {
		assert.NilError(t, api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.DryRunAll, client.FieldOwner("flux")), "%v", object)
	}
}

func TestNamesOfBackups(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"a": true, "2026-01-02": true, "a.b": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false} {
		err := api.Create(t.Context(), backupOf(t, name, "{of: {name: platform}}"), client.DryRunAll)
		assert.Equal(t, err == nil, ok, "%s: %v", name, err)
	}
}

// A DataBackup is one backup: its source cannot be changed.
func TestTheSourceOfABackupIsImmutable(t *testing.T) {
	t.Parallel()
	object := backupOf(t, "stays", "{of: {name: platform}}")
	assert.NilError(t, api.Create(t.Context(), object))
	assert.NilError(t, unstructured.SetNestedField(object.Object, "other", "spec", "of", "name"))
	assert.ErrorContains(t, api.Update(t.Context(), object), "a DataBackup is one backup. Create another one")
}

func TestSamplesOfBackupsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, sample := range []string{"backup", "etcd", "restore"} {
		object := readResource(t, "../../config/samples/backup/"+sample+".yaml")
		assert.NilError(t, api.Create(t.Context(), object, client.DryRunAll))
	}
}

func TestRestores(t *testing.T) {
	t.Parallel()
	restoreOf := func(name, spec string) *unstructured.Unstructured {
		return newResource(t, backupv1.GroupVersion.WithKind(backupv1.KindDataRestore), name, spec)
	}
	for _, spec := range []string{
		"{of: {name: a}}", "{of: {name: a}, databaseName: " + strings.Repeat("a", 44) + "}", "{of: {name: a}, toTime: null, toPosition: null, databaseName: null, image: null, storage: null, identitySecret: null}",
		"{of: {name: a}, backup: 20260102T150405Z-0a1b2c3d, toTime: '2026-01-02T15:30:00.5+02:00', databaseName: db-1, image: 'a/b:8.0', " +
			"storage: {size: 20Gi, storageClassName: fast}, identitySecret: {name: age-key}}",
		"{of: {name: a}, toTime: latest, storage: {size: 1}}", "{of: {name: a}, backup: 20260102T150405Z-0a1b2c3d, toTime: null, toPosition: 'binlog.000002:1234'}",
	} {
		object := restoreOf("a", spec)
		assert.NilError(t, api.Create(t.Context(), object, client.DryRunAll), spec)
		backup, _, err := unstructured.NestedString(object.Object, "spec", "backup")
		assert.NilError(t, err)
		assert.Assert(t, backup != "")
	}
	for spec, message := range map[string]string{
		"{}": "spec.of", "{of: {name: a}, backup: ../x}": "spec.backup", "{of: {name: a}, toTime: yesterday}": "spec.toTime",
		"{of: {name: a}, databaseName: A}": "spec.databaseName", "{of: {name: a}, databaseName: " + strings.Repeat("a", 45) + "}": "spec.databaseName",
		"{of: {name: a}, image: 'a b'}": "spec.image", "{of: {name: a}, storage: {size: 0}}": "must be a quantity above zero",
		"{of: {name: a}, identitySecret: {name: ''}}": "spec.identitySecret.name", "{of: {name: a}, switch: true}": "unknown field",
		"{of: {name: a}, backup: 20260102T150405Z-0a1b2c3d, toPosition: '1234'}": "spec.toPosition", "{of: {name: a}, backup: 20260102T150405Z-0a1b2c3d, toPosition: '$(AGENT_PASSWORD):1'}": "spec.toPosition", "{of: {name: a}, toPosition: 'b.1:4'}": "must be the ID of a backup when toPosition is set",
		"{of: {name: a}, backup: 20260102T150405Z-0a1b2c3d, toTime: latest, toPosition: 'b.1:4'}": "may not be set together with toTime",
	} {
		assert.ErrorContains(t, api.Create(t.Context(), restoreOf("a", spec), client.DryRunAll), message, spec)
	}
	for name, ok := range map[string]bool{"a": true, "a.b": false, strings.Repeat("a", 55): true, strings.Repeat("a", 56): false} {
		err := api.Create(t.Context(), restoreOf(name, "{of: {name: a}}"), client.DryRunAll)
		assert.Equal(t, err == nil, ok, "%s: %v", name, err)
	}
	object := restoreOf("stays", "{of: {name: a}}")
	assert.NilError(t, api.Create(t.Context(), object))
	assert.NilError(t, unstructured.SetNestedField(object.Object, "other", "spec", "databaseName"))
	assert.ErrorContains(t, api.Update(t.Context(), object), "a DataRestore is one restore. Create another one")
}
