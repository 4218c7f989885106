// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
)

var owner = object.Owner{GroupVersionKind: schema.GroupVersionKind{Group: "d3os-product.com.d3os", Version: "v1", Kind: "DataService"}, Namespace: "a", Name: "p", UID: "u"}

// objects returns the planned objects of a database. If agent is empty, they have no guard.
func objects(t *testing.T, kind, image, agent, command string) []*unstructured.Unstructured {
	t.Helper()
	init, volumes, limits := "initContainers: [{name: mine, image: i}],", "", ""
	if agent != "" {
		init = fmt.Sprintf("initContainers: [{name: d3os-agent, image: %q}, {name: d3os-guard, image: %q, command: [%q]}, {name: mine, image: i}],", agent, image, command)
		limits = ", env: [{name: BASH_ENV, value: /d3os-agent/limits.sh}], volumeMounts: [{name: d3os-agent, mountPath: /d3os-agent}]"
		volumes = ", {name: d3os-agent, emptyDir: {}}, {name: d3os-record, configMap: {name: db-data}}"
	}
	text := fmt.Sprintf(`[{apiVersion: v1, kind: Service, metadata: {name: db, namespace: a}},
{apiVersion: apps/v1, kind: %s, metadata: {name: db, namespace: a}, spec: {replicas: 1, template: {spec: {%s containers: [{name: db, image: %q%s}], volumes: [{name: d3os-mine, emptyDir: {}}%s]}}}}]`,
		kind, init, image, limits, volumes)
	var items []map[string]any
	assert.NilError(t, yaml.Unmarshal([]byte(text), &items))
	var found []*unstructured.Unstructured
	for _, item := range items {
		found = append(found, &unstructured.Unstructured{Object: item})
	}
	_, err := object.FinishAll(found, owner)
	assert.NilError(t, err)
	return found
}

type settled struct {
	workload *unstructured.Unstructured
	revision string
}

func (s settled) strategy() string {
	strategy, _, _ := unstructured.NestedString(s.workload.Object, "spec", "updateStrategy", "type")
	return strategy
}

// images returns the images of the pods' init containers.
func (s settled) images() string {
	list, _, _ := unstructured.NestedSlice(s.workload.Object, "spec", "template", "spec", "initContainers")
	found := ""
	for _, c := range list {
		found += fmt.Sprint(c.(map[string]any)["image"], " ")
	}
	return found
}

func settle(t *testing.T, planned []*unstructured.Unstructured, live *unstructured.Unstructured, isKnown bool) settled {
	t.Helper()
	return settleWith(t, planned, live, isKnown, false)
}

func settleWith(t *testing.T, planned []*unstructured.Unstructured, live *unstructured.Unstructured, isKnown, hasData bool) settled {
	t.Helper()
	before := planned[1].DeepCopy()
	found, revision, err := mysql.Settle(planned, live, isKnown, hasData, owner)
	assert.NilError(t, err)
	assert.DeepEqual(t, planned[1], before) // the plan is shared
	assert.Equal(t, found[0], planned[0])
	if len(found) == 2 {
		again, sum, err := mysql.Settle(planned, found[1], isKnown, hasData, owner)
		assert.NilError(t, err)
		assert.DeepEqual(t, again[1], found[1]) // an applied object is not applied again
		assert.Equal(t, sum, revision)
	}
	return settled{found[1], revision}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	const old, guarded, newer = "i ", "agent:1 db:1 i ", "agent:2 db:1 i "
	first := func(kind string) *unstructured.Unstructured {
		return settle(t, objects(t, kind, "db:1", "agent:1", "c"), nil, true).workload
	}
	bare := func(kind string) *unstructured.Unstructured { return objects(t, kind, "db:1", "", "")[1] }
	taken := settle(t, objects(t, "StatefulSet", "db:1", "agent:1", "c"), bare("StatefulSet"), true).workload
	for name, test := range map[string]struct {
		kind, image, agent, command string
		live                        *unstructured.Unstructured
		unknown                     bool
		images, strategy            string
	}{
		"new":                                 {"StatefulSet", "db:1", "agent:1", "c", nil, false, guarded, ""},
		"unchanged":                           {"StatefulSet", "db:1", "agent:1", "c", first("StatefulSet"), false, guarded, ""},
		"no guard":                            {"StatefulSet", "db:1", "agent:1", "c", bare("StatefulSet"), false, guarded, "OnDelete"},
		"OnDelete, unchanged":                 {"StatefulSet", "db:1", "agent:1", "c", taken, false, guarded, "OnDelete"},
		"OnDelete, a newer agent":             {"StatefulSet", "db:1", "agent:2", "c", taken, false, guarded, "OnDelete"},
		"OnDelete, its pods change":           {"StatefulSet", "db:2", "agent:2", "c", taken, false, "agent:2 db:2 i ", ""},
		"no guard, pods change":               {"StatefulSet", "db:2", "agent:1", "c", bare("StatefulSet"), false, "agent:1 db:2 i ", ""},
		"a newer agent":                       {"StatefulSet", "db:1", "agent:2", "c", first("StatefulSet"), false, guarded, ""},
		"another guard":                       {"StatefulSet", "db:1", "agent:2", "d", first("StatefulSet"), false, guarded, "OnDelete"},
		"a newer agent, pods change":          {"StatefulSet", "db:2", "agent:2", "c", first("StatefulSet"), false, "agent:2 db:2 i ", ""},
		"a Deployment, new":                   {"Deployment", "db:1", "agent:1", "c", nil, false, guarded, ""},
		"a Deployment, no guard":              {"Deployment", "db:1", "agent:1", "c", bare("Deployment"), false, old, ""},
		"a Deployment, no guard, in doubt":    {"Deployment", "db:1", "agent:1", "c", bare("Deployment"), true, guarded, ""},
		"a Deployment, no guard, pods change": {"Deployment", "db:2", "agent:1", "c", bare("Deployment"), false, "agent:1 db:2 i ", ""},
		"a Deployment, a newer agent":         {"Deployment", "db:1", "agent:2", "c", first("Deployment"), false, guarded, ""},
		"agent unknown, unchanged":            {"StatefulSet", "db:1", mysql.UnknownImage, "c", first("StatefulSet"), false, guarded, ""},
		"agent unknown, OnDelete":             {"StatefulSet", "db:1", mysql.UnknownImage, "c", taken, false, guarded, "OnDelete"},
		"agent unknown, pods change":          {"StatefulSet", "db:2", mysql.UnknownImage, "c", first("StatefulSet"), false, "agent:1 db:2 i ", ""},
		"agent unknown, new":                  {"StatefulSet", "db:1", mysql.UnknownImage, "c", nil, false, old, ""},
		"agent unknown, no guard":             {"StatefulSet", "db:1", mysql.UnknownImage, "c", bare("StatefulSet"), false, old, ""},
		"agent unknown, another kind":         {"Deployment", "db:1", mysql.UnknownImage, "c", first("StatefulSet"), false, guarded, ""},
		"without the agent's image":           {"StatefulSet", "db:1", "", "c", nil, false, old, ""}, // there is no guard to decide about
		"another kind":                        {"StatefulSet", "db:1", "agent:2", "c", first("Deployment"), false, newer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := settle(t, objects(t, test.kind, test.image, test.agent, test.command), test.live, !test.unknown)
			assert.Equal(t, got.images(), test.images)
			assert.Equal(t, got.strategy(), test.strategy)
			assert.Equal(t, got.revision == "", test.agent == "")
		})
	}
}

// If nothing in a workload changes, its digest and the revision of its part stay the same. So nothing is written.
func TestSettleKeepsDigests(t *testing.T) {
	t.Parallel()
	was := objects(t, "Deployment", "db:1", "", "")
	got := settle(t, objects(t, "Deployment", "db:1", "agent:1", "c"), was[1], true)
	assert.Equal(t, object.Digest(got.workload), object.Digest(was[1]))
	for i := range was {
		was[i] = was[i].DeepCopy()
		was[i].SetAnnotations(nil)
		was[i].SetOwnerReferences(nil)
		unstructured.RemoveNestedField(was[i].Object, "metadata", "annotations")
	}
	revision, err := object.FinishAll(was, owner)
	assert.NilError(t, err)
	assert.Equal(t, got.revision, revision)

	first := settle(t, objects(t, "StatefulSet", "db:1", "agent:1", "c"), nil, true)
	second := settle(t, objects(t, "StatefulSet", "db:1", "agent:2", "c"), first.workload, true)
	assert.Equal(t, object.Digest(second.workload), object.Digest(first.workload))
	assert.Equal(t, second.revision, first.revision)
}

// restoring returns the planned objects of a database that is restored from a backup.
func restoring(t *testing.T, kind, image string) []*unstructured.Unstructured {
	t.Helper()
	found := objects(t, kind, image, "agent:1", "c")
	for path, item := range map[string]map[string]any{
		"initContainers": {"name": "d3os-restore", "image": image}, "volumes": {"name": "d3os-restore-store", "persistentVolumeClaim": map[string]any{"claimName": "backups"}},
	} {
		items, _, _ := unstructured.NestedSlice(found[1].Object, "spec", "template", "spec", path)
		assert.NilError(t, unstructured.SetNestedSlice(found[1].Object, append(items, item), "spec", "template", "spec", path))
	}
	found[1].SetOwnerReferences(nil)
	unstructured.RemoveNestedField(found[1].Object, "metadata", "annotations")
	_, err := object.Finish(found[1], owner)
	assert.NilError(t, err)
	return found
}

// Adding or removing the container that restores a backup does not restart a running database. When the database has
// data, its next pod has neither that container nor the container's volumes, so that it starts even if the store is
// missing.
func TestSettleABirth(t *testing.T) {
	t.Parallel()
	const plain, restores = "agent:1 db:1 i ", "agent:1 db:1 i db:1 "
	for name, test := range map[string]struct {
		kind             string
		planned, live    bool // whether the pods restore a backup
		hasData          bool
		image            string
		images, strategy string
	}{
		"the field is removed":                   {"StatefulSet", false, true, false, "db:1", plain, "OnDelete"},
		"the field is set later":                 {"StatefulSet", true, false, false, "db:1", restores, "OnDelete"},
		"it has data":                            {"StatefulSet", true, true, true, "db:1", plain, "OnDelete"},
		"it has data, and never had the field":   {"StatefulSet", true, false, true, "db:1", plain, ""},
		"it has data, and its pods change":       {"StatefulSet", true, true, true, "db:2", "agent:1 db:2 i ", ""},
		"a Deployment has data":                  {"Deployment", true, true, true, "db:1", restores, ""},
		"a Deployment has data, and pods change": {"Deployment", true, true, true, "db:2", "agent:1 db:2 i ", ""},
		"a Deployment has data and no restore":   {"Deployment", true, false, true, "db:1", plain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(is bool, image string) []*unstructured.Unstructured {
				if is {
					return restoring(t, test.kind, image)
				}
				return objects(t, test.kind, image, "agent:1", "c")
			}
			live := settle(t, of(test.live, "db:1"), nil, true)
			got := settleWith(t, of(test.planned, test.image), live.workload, true, test.hasData)
			assert.Equal(t, got.images(), test.images)
			assert.Equal(t, got.strategy(), test.strategy)
			store := strings.Contains(fmt.Sprint(got.workload.Object), "backups")
			assert.Equal(t, store, test.images == restores)
		})
	}
}
