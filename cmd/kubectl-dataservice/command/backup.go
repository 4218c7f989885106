// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/cli/screen"
)

// backups is the resource of DataBackups.
var backups = backupv1.GroupVersion.WithResource("databackups")

func (p *plugin) backupCommand() *cobra.Command {
	var as string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "backup NAME",
		Short: "Back the database up now, and follow the backup to its end",
		Long: "Back the database of a DataService up now, where spec.mysql.backup says, and follow the backup until the store holds it or it has\n" +
			"failed. It creates a DataBackup, and needs the right to. An interrupt ends only the command: the backup goes on.\n\n" +
			"Exit codes: 0 the store holds the backup, 1 it has failed, 2 an error.",
		Example: "  kubectl dataservice backup platform\n  kubectl dataservice backup platform --as-name before-upgrade",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			ds, err := c.get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			backup, err := newBackup(ds, as, p.now())
			if err != nil {
				return err
			}
			if err := c.create(cmd.Context(), backup); err != nil {
				return err
			}
			if err := p.print(fmt.Sprintf("DataBackup %s was created; it goes on when this command ends: kubectl -n %s get databackup %s\n", backup.Name, c.Namespace, backup.Name)); err != nil {
				return err
			}
			if noWait {
				return nil
			}
			return p.followBackup(cmd.Context(), c, backup.Name)
		},
	}
	cmd.Flags().StringVar(&as, "as-name", "", "name of the DataBackup; the default is the DataService's with the time")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not follow the backup")
	return cmd
}

// newBackup is a DataBackup of a DataService's database.
func newBackup(ds *dsv1.DataService, name string, now time.Time) (*backupv1.DataBackup, error) {
	if ds.Spec.MySQL == nil || ds.Spec.MySQL.Backup == nil {
		return nil, fmt.Errorf("DataService %s does not say where backups go: declare spec.mysql.backup first", ds.Name)
	}
	if name == "" {
		const longest = 63 - len("-20060102-150405")
		name = ds.Name[:min(len(ds.Name), longest)] + now.UTC().Format("-20060102-150405")
	}
	backup := &backupv1.DataBackup{Spec: backupv1.DataBackupSpec{Of: backupv1.Source{Kind: dsv1.Kind, Name: ds.Name, Component: "mysql"}}}
	backup.APIVersion, backup.Kind, backup.Name, backup.Namespace = backupv1.GroupVersion.String(), "DataBackup", name, ds.Namespace
	return backup, nil
}

func (c *cluster) create(ctx context.Context, backup *backupv1.DataBackup) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(backup)
	if err != nil {
		return err
	}
	delete(content, "status")
	_, err = c.Dynamic.Resource(backups).Namespace(backup.Namespace).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("create DataBackup %s/%s: %w", backup.Namespace, backup.Name, err)
	}
	return nil
}

// followBackup prints what becomes of a backup, until it has succeeded or failed.
func (p *plugin) followBackup(ctx context.Context, c *cluster, name string) error {
	printed := ""
	show := func(live *unstructured.Unstructured) (final bool, err error) {
		backup := &backupv1.DataBackup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, backup); err != nil {
			return false, fmt.Errorf("read DataBackup %s: %w", name, err)
		}
		if text := screen.Backup(backup); text != printed {
			printed = text
			if err := p.print(text); err != nil {
				return false, err
			}
		}
		switch backup.Status.Phase {
		case backupv1.PhaseSucceeded:
			return true, nil
		case backupv1.PhaseFailed:
			return true, errNo
		default:
			return false, nil
		}
	}
	for {
		live, err := c.Dynamic.Resource(backups).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read DataBackup %s/%s: %w", c.Namespace, name, err)
		}
		if final, err := show(live); final || err != nil {
			return err
		}
		if final, err := c.watchBackup(ctx, live, show); final || err != nil {
			return err
		}
	}
}

// watchBackup shows each change of a backup until the watch ends, which the API server does now and then.
func (c *cluster) watchBackup(ctx context.Context, from *unstructured.Unstructured, show func(*unstructured.Unstructured) (bool, error)) (final bool, err error) {
	w, err := c.Dynamic.Resource(backups).Namespace(c.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + from.GetName(), ResourceVersion: from.GetResourceVersion(),
	})
	if err != nil {
		return false, fmt.Errorf("watch DataBackup %s/%s: %w", c.Namespace, from.GetName(), err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		live, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case !ok || event.Type == watch.Error:
			return false, nil // it is read again
		case event.Type == watch.Deleted:
			return false, fmt.Errorf("DataBackup %s/%s was deleted, and its Job with it", c.Namespace, from.GetName())
		}
		if final, err := show(live); final || err != nil {
			return final, err
		}
	}
	return false, ctx.Err()
}
