// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/mysql"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	o := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	assert.NilError(t, err)
	assert.NilError(t, o.UnmarshalJSON(data)) // keeps integers
	return o
}

// The DataService reports the backups of several members as the MySQLCluster does. Without a report, it reports no backup.
func TestBackupsOfMembers(t *testing.T) {
	t.Parallel()
	const head = "{kind: MySQLCluster, metadata: {name: db}, status: {"
	archived := &dsv1.Backup{PointInTime: &dsv1.PointInTime{}}
	for name, c := range map[string]struct {
		declared                 *dsv1.Backup
		cluster                  string
		id, healthy, recoverable string // reasons; "" for no condition
		isHealthy, isRecoverable bool
		again                    time.Duration
	}{
		"none":            {},
		"none any more":   {cluster: head + "backup: {lastID: a}}}"},
		"not there yet":   {declared: archived, healthy: "NoBackup", recoverable: "NoBackup", again: 15 * time.Second},
		"nothing is said": {declared: &dsv1.Backup{}, cluster: head + "}}", healthy: "NoBackup", again: 15 * time.Second},
		"well": {
			declared: archived, id: "a", healthy: "BackupSucceeded", isHealthy: true, recoverable: "Archived", isRecoverable: true, again: 30 * time.Second,
			cluster: head + `backup: {lastID: a, lastSuccessful: "2026-01-02T15:04:05Z", since: "2026-01-02T15:04:05Z"}, conditions: [
				{type: BackupHealthy, status: "True", reason: BackupSucceeded, message: m}, {type: Recoverable, status: "True", reason: Archived, message: m}]}}`,
		},
		"not recoverable": {
			declared: archived, id: "a", healthy: "BackupSucceeded", isHealthy: true, recoverable: "Gap", again: 15 * time.Second,
			cluster: head + `backup: {lastID: a}, conditions: [
				{type: BackupHealthy, status: "True", reason: BackupSucceeded, message: m}, {type: Recoverable, status: "False", reason: Gap, message: m}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := mysql.MembersOf(c.declared, parse(t, c.cluster))
			assert.NilError(t, err)
			assert.Equal(t, m.LookAgain(), c.again)
			if c.declared == nil {
				assert.Assert(t, m == nil)
				return
			}
			assert.Equal(t, m.Backup.LastID, c.id)
			assert.Equal(t, m.Healthy.Reason, c.healthy)
			assert.Equal(t, m.Healthy.Good, c.isHealthy)
			assert.Equal(t, m.Recoverable != nil, c.recoverable != "")
			if m.Recoverable != nil {
				assert.Equal(t, m.Recoverable.Reason, c.recoverable)
				assert.Equal(t, m.Recoverable.Good, c.isRecoverable)
			}
		})
	}
}
