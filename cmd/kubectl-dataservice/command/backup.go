// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
)

// backups is the resource of DataBackups.
var backups = backupv1.GroupVersion.WithResource("databackups")

func (p *cli) backupCommand() *cobra.Command {
	var as string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "backup NAME",
		Short: "Back up the database now, and follow the backup to its end",
		Long: "Back up the database of a DataService now, to the destination in spec.mysql.backup. Follow the backup until the store holds it, or\n" +
			"until it has failed. The command creates a DataBackup, and you need the right to create one. An interrupt ends only the command:\n" +
			"the backup continues.\n\n" +
			"Exit codes: 0: the store holds the backup; 1: the backup failed; 2: an error.",
		Example: "  kubectl dataservice backup platform\n  kubectl dataservice backup platform --as-name before-upgrade",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ds, err := p.dataService(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			backup, err := newBackup(ds, as, p.now())
			if err != nil {
				return err
			}
			return p.carryOut(cmd.Context(), c, task{
				resource: backups, kind: "DataBackup", object: backup, noWait: noWait,
				lost: "and its Job with it", good: backupv1.PhaseSucceeded, show: shows(plugin.Backup),
			})
		},
	}
	cmd.Flags().StringVar(&as, "as-name", "", "name of the DataBackup; default: the DataService's name with the time")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not follow the backup")
	return cmd
}

// newBackup returns a DataBackup of a DataService's database.
func newBackup(ds *dsv1.DataService, name string, now time.Time) (*backupv1.DataBackup, error) {
	if ds.Spec.MySQL == nil || ds.Spec.MySQL.Backup == nil {
		return nil, fmt.Errorf("DataService %s declares no backups: declare spec.mysql.backup first", ds.Name)
	}
	if name == "" {
		name = stamped(ds.Name, 63, now)
	}
	backup := &backupv1.DataBackup{Spec: backupv1.DataBackupSpec{Of: backupv1.BackupSource{Kind: dsv1.Kind, Name: ds.Name, Component: "mysql"}}}
	backup.APIVersion, backup.Kind, backup.Name, backup.Namespace = backupv1.GroupVersion.String(), "DataBackup", name, ds.Namespace
	return backup, nil
}

// stamped returns a name with the time appended. The name is cut so that the result has at most longest characters.
func stamped(name string, longest int, now time.Time) string {
	const layout = "-20060102-150405"
	return name[:min(len(name), longest-len(layout))] + now.UTC().Format(layout)
}
