// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
)

// restores is the resource of DataRestores.
var restores = backupv1.GroupVersion.WithResource("datarestores")

// latest stands for the newest backup, or for the latest point in time in the archive.
const latest = "latest"

// wanted holds the flags that describe a restore.
type wanted struct{ backup, toTime, toPosition, database, name string }

func (p *cli) restoreCommand() *cobra.Command {
	var w wanted
	var noWait bool
	cmd := &cobra.Command{
		Use:   "restore NAME",
		Short: "Restore a backup to a new volume next to the database, and follow the restore to its end; or list backups and restores",
		Long: "Restore a backup of a DataService's database to a new volume, and follow the restore until the new data was checked, or\n" +
			"until it has failed. The command creates a DataRestore, and you need the right to create one. The running database does not change,\n" +
			"and the services still use it. Without --database, the restore is a rehearsal: its volume is deleted with the DataRestore. An\n" +
			"interrupt ends only the command.\n\n" +
			"Without --backup, --to-time and --to-position, the command lists the backups and restores that have an object in the cluster.\n\n" +
			"Exit codes: 0: the backup was restored and checked; 1: the restore failed; 2: an error.",
		Example: "  kubectl dataservice restore platform\n  kubectl dataservice restore platform --backup latest\n" +
			"  kubectl dataservice restore platform --to-time 2026-01-02T15:30:00Z --database mysql-restored\n" +
			"  kubectl dataservice restore platform --backup 20260102T150405Z-0a1b2c3d --to-position binlog.000002:1234",
		Args: cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ds, err := p.dataService(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if w.backup == "" && w.toTime == "" && w.toPosition == "" {
				if w.database != "" || w.name != "" {
					return errors.New("which backup? Give --backup latest for the newest backup, or --to-time for a point in time")
				}
				return p.listRestores(cmd.Context(), c, ds)
			}
			restore, err := newRestore(ds, w, p.now())
			if err != nil {
				return err
			}
			return p.carryOut(cmd.Context(), c, task{
				resource: restores, kind: "DataRestore", object: restore, noWait: noWait,
				lost: "and its Job with it; the running database was not touched", good: backupv1.PhasePrepared, show: shows(plugin.Restore),
			})
		},
	}
	cmd.Flags().StringVar(&w.backup, "backup", "", "ID of the backup, or latest")
	cmd.Flags().StringVar(&w.toTime, "to-time", "", "point in time up to which the archive is replayed, such as 2026-01-02T15:30:00Z, or latest; needs spec.mysql.backup.pointInTime")
	cmd.Flags().StringVar(&w.toPosition, "to-position", "", "place in the binary log (FILE:OFFSET) up to which the archive is replayed, instead of --to-time; needs --backup with the ID of a backup")
	cmd.Flags().StringVar(&w.database, "database", "", "keep the restored volume for a database of this name; without this flag, the restore is a rehearsal")
	cmd.Flags().StringVar(&w.name, "as-name", "", "name of the DataRestore; default: the DataService's name with the time")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not follow the restore")
	return cmd
}

// newRestore returns a DataRestore of a DataService's database.
func newRestore(ds *dsv1.DataService, w wanted, now time.Time) (*backupv1.DataRestore, error) {
	if ds.Spec.MySQL == nil || ds.Spec.MySQL.Backup == nil {
		return nil, fmt.Errorf("DataService %s declares no backups: declare spec.mysql.backup first", ds.Name)
	}
	if hasMembers(ds) {
		return nil, fmt.Errorf("mysql of DataService %s has several members, and their backups cannot be restored next to the database: create another DataService with spec.mysql.restoreFrom", ds.Name)
	}
	if end := w.toTime + w.toPosition; end != "" && ds.Spec.MySQL.Backup.PointInTime == nil {
		return nil, fmt.Errorf("DataService %s has no archive to replay up to %s: without spec.mysql.backup.pointInTime, only --backup can be given", ds.Name, end)
	}
	if w.toPosition != "" && w.toTime != "" {
		return nil, errors.New("--to-position and --to-time cannot both be given: remove one of these two flags")
	}
	if w.toPosition != "" && (w.backup == "" || w.backup == latest) {
		return nil, errors.New("which backup? --to-position needs --backup with an ID, because a position is valid in one binary log only")
	}
	name := w.name
	if name == "" {
		name = stamped(ds.Name, 55, now)
	}
	restore := &backupv1.DataRestore{Spec: backupv1.DataRestoreSpec{
		Of: backupv1.Source{Kind: dsv1.Kind, Name: ds.Name, Component: "mysql"}, Backup: w.backup, ToTime: w.toTime, ToPosition: w.toPosition, DatabaseName: w.database,
	}}
	if restore.Spec.Backup == "" {
		restore.Spec.Backup = latest
	}
	restore.APIVersion, restore.Kind, restore.Name, restore.Namespace = backupv1.GroupVersion.String(), "DataRestore", name, ds.Namespace
	return restore, nil
}

// listRestores prints the DataBackups and DataRestores of a DataService.
func (p *cli) listRestores(ctx context.Context, c *cluster, ds *dsv1.DataService) error {
	var made backupv1.DataBackupList
	if err := c.listTasks(ctx, backups, "DataBackups", &made); err != nil {
		return err
	}
	var restored backupv1.DataRestoreList
	if err := c.listTasks(ctx, restores, "DataRestores", &restored); err != nil {
		return err
	}
	made.Items = slices.DeleteFunc(made.Items, func(b backupv1.DataBackup) bool { return b.Spec.Of.Name != ds.Name })
	restored.Items = slices.DeleteFunc(restored.Items, func(r backupv1.DataRestore) bool { return r.Spec.Of.Name != ds.Name })
	return p.print(p.style().Restores(ds, made.Items, restored.Items, p.now()))
}

// listTasks lists the resources of a kind in the namespace. name is the kind's name in errors.
func (c *cluster) listTasks(ctx context.Context, of schema.GroupVersionResource, name string, into client.ObjectList) error {
	content, err := c.Dynamic.Resource(of).Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content.UnstructuredContent(), into)
	}
	if err != nil {
		return fmt.Errorf("list the %s of namespace %s: %w", name, c.Namespace, err)
	}
	return nil
}
