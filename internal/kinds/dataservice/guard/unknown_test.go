// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/object"
)

func cronJob(t *testing.T, image string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	assert.NilError(t, yaml.Unmarshal([]byte(fmt.Sprintf(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: db-backup, namespace: a},
spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {initContainers: [{name: agent, image: %q}], containers: [{name: backup, image: 'db:1'}]}}}}}}`, image)), o))
	_, err := object.Finish(o, owner)
	assert.NilError(t, err)
	return o
}

// An operator that does not know the agent's image keeps CronJobs as they are, and makes none.
func TestKeepCronJobs(t *testing.T) {
	t.Parallel()
	service := objects(t, "StatefulSet", "db:1", "", "")[0]
	for name, test := range map[string]struct{ planned, live, want string }{
		"known":                  {"agent:2", "agent:1", "agent:2"},
		"known, new":             {"agent:2", "", "agent:2"},
		"unknown":                {guard.UnknownImage, "agent:1", "agent:1"},
		"unknown, and not there": {guard.UnknownImage, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := cronJob(t, test.planned)
			before := planned.DeepCopy()
			got, err := guard.KeepCronJobs([]*unstructured.Unstructured{service, planned}, func(kind, name string) (*unstructured.Unstructured, error) {
				assert.Equal(t, kind+"/"+name, "CronJob/db-backup")
				if test.live == "" {
					return nil, nil
				}
				return cronJob(t, test.live), nil
			}, owner)
			assert.NilError(t, err)
			assert.DeepEqual(t, planned, before) // it is shared
			assert.Equal(t, got[0], service)
			if test.want == "" {
				assert.Equal(t, len(got), 1)
				return
			}
			assert.Equal(t, object.Digest(got[1]), object.Digest(cronJob(t, test.want)))
		})
	}
}
