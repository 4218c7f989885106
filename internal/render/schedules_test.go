// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"gotest.tools/v3/assert"
)

// A schedule that the parser accepts, but that is never due, is refused: no backup would be made, and none would count as overdue.
func TestBackupSchedulesThatAreNeverDue(t *testing.T) {
	t.Parallel()
	const never = "0 3 30 2 *"
	assert.NilError(t, CheckBackupSchedules("spec.backup", "0 3 29 2 *", "@daily", ""))
	assert.Error(t, CheckBackupSchedules("spec.backup", never, "", ""), "spec.backup.schedule: '0 3 30 2 *' is never due: remove it, or correct its day or month")
	assert.Error(t, CheckBackupSchedules("spec.backup", "", never, ""), "spec.backup.verify.schedule: '0 3 30 2 *' is never due: remove it, or correct its day or month")
}
