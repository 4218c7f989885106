// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import "d3os.com/d3os-operator/internal/schedule"

// CheckBackupSchedules refuses an unknown time zone, and schedules of backups or of their checks that Kubernetes' parser does not accept or
// that are never due. Empty values are accepted. path is the path of the field backup.
func CheckBackupSchedules(path, backups, checks, zone string) error {
	for _, s := range []struct{ field, text string }{{"schedule", backups}, {"verify.schedule", checks}} {
		if s.text == "" {
			continue
		}
		if err := schedule.Check(s.text); err != nil {
			return FieldError(path+"."+s.field, "%v", err)
		}
		if !schedule.IsDue(s.text) {
			return FieldError(path+"."+s.field, "'%s' is never due: remove it, or correct its day or month", s.text)
		}
	}
	if err := schedule.CheckZone(zone); err != nil {
		return FieldError(path+".timeZone", "%v", err)
	}
	return nil
}
