// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
)

// backupWorkload returns a backup workload of a kind.
func backupWorkload(t *testing.T, kind, image string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	pods := fmt.Sprintf("template: {spec: {initContainers: [{name: agent, image: %q}], containers: [{name: backup, image: 'db:1'}]}}", image)
	text := "apiVersion: apps/v1, kind: Deployment, spec: {" + pods + "}"
	if kind == "CronJob" {
		text = "apiVersion: batch/v1, kind: CronJob, spec: {schedule: '@daily', jobTemplate: {spec: {" + pods + "}}}"
	}
	assert.NilError(t, yaml.Unmarshal([]byte("{"+text+", metadata: {name: db-backup, namespace: a, labels: {"+object.LabelBackup+": mysql}}}"), o))
	_, err := object.Finish(o, owner)
	assert.NilError(t, err)
	return o
}

// If the agent's image is unknown, live backup workloads keep their image, and no workload is created.
func TestKeepBackups(t *testing.T) {
	t.Parallel()
	service := objects(t, "StatefulSet", "db:1", "", "")[0]
	for name, test := range map[string]struct{ planned, live, want string }{
		"known":                  {"agent:2", "agent:1", "agent:2"},
		"known, new":             {"agent:2", "", "agent:2"},
		"unknown":                {mysql.UnknownImage, "agent:1", "agent:1"},
		"unknown, and not there": {mysql.UnknownImage, "", ""},
	} {
		for _, kind := range []string{"CronJob", "Deployment"} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				planned := backupWorkload(t, kind, test.planned)
				before := planned.DeepCopy()
				got, err := mysql.KeepBackups([]*unstructured.Unstructured{service, planned}, func(k, name string) (*unstructured.Unstructured, error) {
					assert.Equal(t, k+"/"+name, kind+"/db-backup")
					if test.live == "" {
						return nil, nil
					}
					return backupWorkload(t, kind, test.live), nil
				}, owner)
				assert.NilError(t, err)
				assert.DeepEqual(t, planned, before) // the plan is shared
				assert.Equal(t, got[0], service)
				if test.want == "" {
					assert.Equal(t, len(got), 1)
					return
				}
				assert.Equal(t, object.Digest(got[1]), object.Digest(backupWorkload(t, kind, test.want)))
			})
		}
	}
}
