// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"cmp"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

// membersFolder is the folder for the backups of several members, below the folder in the spec. The folder in the spec may contain backups
// of a single server, in another format and from another writer.
const membersFolder = "mysql.cluster"

// Defaults of the API server in spec.mysql.backup.
const (
	defaultDaysOnServer = 3
	defaultLockWait     = "10s"
	defaultInterval     = "30s"
)

// takeMembersBackup adds the backups that spec.mysql declares to the spec of a MySQLCluster. It refuses fields that a MySQLCluster lacks.
func takeMembersBackup(c *component.Component, spec map[string]any) error {
	declared := c.MySQL.Backup
	if declared == nil {
		return nil
	}
	if err := checkMembersBackup(c); err != nil {
		return err
	}
	given := backupv1.ClusterBackup{
		Destination: *declared.Destination.DeepCopy(), Encryption: declared.Encryption, Schedule: declared.Schedule, TimeZone: declared.TimeZone, Retention: declared.Retention,
	}
	if s3 := given.Destination.S3; s3 != nil && s3.Prefix != "" {
		s3.Prefix = strings.TrimSuffix(s3.Prefix, "/") + "/" + membersFolder
	}
	if claim := given.Destination.Claim; claim != nil && claim.Folder != "" {
		claim.Folder += "/" + membersFolder
	}
	if declared.Resources != nil {
		given.Resources = &corev1.ResourceRequirements{}
		if err := render.Decode(c.Path+".backup.resources", json.RawMessage(declared.Resources.Raw), given.Resources); err != nil {
			return err
		}
	}
	if declared.PodTemplate != nil {
		given.PodTemplate = &backupv1.Object{JSON: declared.PodTemplate.JSON}
	}
	given.SetDefaults()
	spec["backup"] = given
	if err := plain(spec, "backup"); err != nil {
		return err
	}
	planned := spec["backup"].(map[string]any)
	if declared.PointInTime != nil {
		planned["pointInTime"] = map[string]any{"interval": cmp.Or(declared.PointInTime.Interval, defaultInterval)}
	}
	if v := declared.Verify; v != nil {
		check := map[string]any{"schedule": v.Schedule}
		if v.IdentitySecret != nil {
			check["identitySecret"] = map[string]any{"name": v.IdentitySecret.Name}
		}
		planned["verify"] = check
	}
	return nil
}

// takeMembersRestore adds the backup from which several members are restored to the spec of a MySQLCluster. It does not change the folder
// of that backup, which belongs to another database.
func takeMembersRestore(c *component.Component, spec map[string]any) error {
	declared := c.MySQL.RestoreFrom
	if declared == nil {
		return nil
	}
	given := backupv1.ClusterRestore{Destination: *declared.Destination.DeepCopy(), Backup: declared.Backup, IdentitySecret: declared.IdentitySecret}
	given.SetDefaults()
	spec["restoreFrom"] = given
	if err := plain(spec, "restoreFrom"); err != nil {
		return err
	}
	give(spec["restoreFrom"].(map[string]any), map[string]string{"toTime": declared.ToTime})
	return nil
}

// checkMembersBackup refuses fields of backups that a MySQLCluster lacks. It accepts a field with the API server's default, because every
// spec has that default.
func checkMembersBackup(c *component.Component) error {
	refuse := func(field, why string) error {
		return render.FieldError(c.Path+".backup."+field, "may not be set for a mysql of several members: remove it; %s", why)
	}
	b := c.MySQL.Backup
	switch {
	case cmp.Or(b.MaxLockWait, defaultLockWait) != defaultLockWait:
		return refuse("maxLockWait", "a backup of several members locks no table")
	case b.PointInTime != nil && cmp.Or(b.PointInTime.DaysOnServer, defaultDaysOnServer) != defaultDaysOnServer:
		return refuse("pointInTime.daysOnServer", "members keep their log for 30 days, or as long as binlog_expire_logs_seconds in config")
	case b.Verify != nil && b.Verify.Size != "":
		return refuse("verify.size", "the volume of a check has the size storage.size")
	case b.Verify != nil && b.Verify.StorageClassName != "":
		return refuse("verify.storageClassName", "the volume of a check has the class storage.storageClassName")
	}
	return nil
}
