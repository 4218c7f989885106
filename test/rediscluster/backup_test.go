// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rediscluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// ofBackups is the spec of a cluster with backups on a claim. restored is the spec of a cluster that is restored from these backups.
const (
	ofBackups = "replicas: 6, repository: redis, backup: {destination: {claim: {name: backups}}}"
	restored  = "{" + ofBackups + ", restoreFrom: {destination: {claim: {name: backups}}}}"
)

// resolve replaces the name of the cluster's Service by the address of the cluster's first pod, because there is no DNS.
func (s *scene) resolve(_ *corev1.Pod, text string) string {
	first := harness.Lookup[*corev1.Pod](s.Journal, name+"-0-0")
	if first == nil {
		return text
	}
	return strings.ReplaceAll(text, "--server="+name+"."+s.Namespace+".svc:", "--server="+first.Status.PodIP+":")
}

// lost creates a cluster with data and a backup, and deletes the cluster with all its data.
func (s *scene) lost() backupv1.DataBackupStatus {
	s.Helper()
	op := s.Start()
	defer op.Stop()
	s.Claim("backups")
	s.create("{" + ofBackups + "}")
	s.ready(6)
	s.write()
	made := s.backedUp()
	s.Lose(s.get())
	return made
}

// backedUp makes a backup of the cluster, and waits until the status reports the backup.
func (s *scene) backedUp() backupv1.DataBackupStatus {
	s.Helper()
	made := s.BackUp("first", redisv1.Kind, name)
	if made.Phase != backupv1.PhaseSucceeded || made.ID == "" || made.Tables != 3 || made.Rows != keys || len(made.Warnings) > 0 {
		s.Fatalf("the backup: %+v", made)
	}
	s.IsBackedUp(made.ID, func() (*backupv1.ClusterBackupStatus, []metav1.Condition) {
		status := &s.get().Status
		return status.Backup, status.Conditions
	})
	return made
}

// A cluster that is lost with all its data is restored from its backup.
func TestRestoresFromABackup(t *testing.T) {
	harness.Long(t) // the short form runs TestLife instead
	newScene(t).comesBack(t)
}

// comesBack loses a cluster with all its data, restores it from its backup, and checks its keys.
func (s *scene) comesBack(t *testing.T) {
	t.Helper()
	made := s.lost()
	s.Start()
	s.create(restored)
	t.Logf("the backup of %d bytes took %s; ready again from it after %.1f s", made.Bytes, made.Duration, s.ready(6).Seconds())
	s.Until("no pod has access to the store", func() error {
		for _, pod := range s.pods() {
			if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "d3os-restore" }) {
				return fmt.Errorf("pod %s still restores a backup", pod.Name)
			}
		}
		return s.isReady(6)
	})
	s.holds()
}

// After the restore, the cluster no longer uses the backup: a master that loses its volume is replaced by its replica, and gets nothing
// from the backup. The cluster can then be scaled.
func TestRestoredClusterIgnoresItsBackup(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.comesBack(t)
	c := s.clients()
	defer c.Close()
	for i := range 100 {
		s.Until("a key is written", func() error { return c.Set(s.Ctx, fmt.Sprint("after-", i), "birth", 0).Err() })
	}
	s.Until("the replicas have the key", func() error {
		return c.ForEachMaster(s.Ctx, func(ctx context.Context, master *redis.Client) error { return master.Wait(ctx, 1, time.Second).Err() })
	})
	before := s.uids()
	first := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "data-" + name + "-0-0"}}
	s.Must(suite.API.Delete(s.Ctx, &first))
	s.Must(suite.API.Delete(s.Ctx, harness.Lookup[*corev1.Pod](s.Journal, name+"-0-0").DeepCopy(), client.GracePeriodSeconds(1)))
	s.Eventually("another pod", func() bool { return s.remain(before) != len(before) })
	s.ready(6)
	s.holds()
	for i := range 100 {
		s.Until("a key is read", func() error { return c.Get(s.Ctx, fmt.Sprint("after-", i)).Err() })
	}
	before = s.uids()
	s.change("{replicas: 8}")
	s.ready(8)
	s.holds()
	if stay := s.remain(before); stay != len(before) {
		t.Errorf("%d of %d pods stay when the cluster grows", stay, len(before))
	}
}

// The status names the obstacle to a restore, and the operator creates no empty cluster instead.
func TestImpossibleRestoreIsReported(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.lost()
	s.Start()
	s.create(strings.Replace(restored, "replicas: 6", "replicas: 8", 1))
	s.Until("the status has the reason", func() error {
		if said := s.get().Status.Message; !strings.Contains(said, "shards") {
			return errors.New(said)
		}
		return nil
	})
	if slots := s.get().Status.Slots; slots > 0 {
		t.Errorf("%d slots are served", slots)
	}
	s.change("{replicas: 6}")
	s.ready(6)
	s.holds()
}

// A cluster is restored completely although the operator is killed at every step.
func TestKilledDuringARestore(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	s.lost()
	m := &mortal{within: 2 * patience}
	s.create(restored)
	m.live(s, func() error { return s.isReady(6) })
	s.Start()
	s.ready(6)
	s.holds()
}
