// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/test/etcd/rig"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
)

// restores gives the images of etcd what restores snapshots, and leads the name of the cluster's Service to its first pod.
func restores(o *emulator.Options) {
	for name, tool := range map[string]string{image: "etcdutl-3.6", image + ":v" + rig.V35: "etcdutl-3.5", image + ":v" + rig.V34: "etcdctl-3.4"} {
		found := o.Images[name]
		inside, _, _ := strings.Cut(tool, "-")
		found.Executables[inside] = filepath.Join(filepath.Dir(found.Executables["etcd"]), tool)
		found.Rewrite = func(pod *corev1.Pod, text string) string {
			service, first := "//my-etcd-cluster.", "//my-etcd-cluster-0.my-etcd-cluster-headless."
			return strings.ReplaceAll(text, service+pod.Namespace+".svc", first+pod.Namespace+".svc")
		}
		o.Images[name] = found
	}
}

// A cluster that is lost with all of its data comes back from its backup, with another id and under higher revisions. Once it was formed, a
// lost volume gets its data from the other members, and not from the backup.
func TestComesBackFromABackup(t *testing.T) {
	for _, version := range []string{rig.V36, rig.V35, rig.V34} {
		if version != rig.V36 && !full {
			continue
		}
		t.Run(version, func(t *testing.T) {
			s := newScene(t, restores)
			s.start()
			s.Claim("backups")
			const store = "{destination: {claim: {name: backups}}}"
			tls := "tls: {mode: Auto}"
			if version == rig.V34 {
				tls = "tls: {mode: 'Off'}"
			}
			of := fmt.Sprintf("replicas: 3, version: %s, %s, backup: %s", version, tls, store)
			s.create("{" + of + "}")
			s.ready(3)
			s.write()
			made := s.BackUp("first", etcdv1.Kind, name)
			if made.Phase != backupv1.PhaseSucceeded || made.ID == "" || made.Revision < keys || made.StoredBytes == 0 || made.ServerVersion != version {
				t.Fatalf("the backup: %+v", made)
			}
			s.IsBackedUp(made.ID, func() (*backupv1.ClusterBackupStatus, []metav1.Condition) {
				status := &s.get().Status
				return status.Backup, status.Conditions
			})
			before := s.get().Status.ClusterID
			s.Lose(s.get())

			s.create("{" + of + ", restoreFrom: " + store + "}")
			t.Logf("etcd %s: the backup of %d bytes took %s; ready again with it after %.1f s", version, made.Bytes, made.Duration, s.ready(3).Seconds())
			s.holds()
			if now := s.get().Status.ClusterID; now == before {
				t.Errorf("the cluster has the id of the lost one: %s", now)
			}
			c, err := s.dial()
			s.Must(err)
			defer c.Close()
			_, err = c.Put(s.Ctx, "key-after-birth", "there")
			s.Must(err)
			lost := s.ids()
			losses[0].lose(s, 0)
			s.Until("another member is in its place", func() error { return errors.Join(s.isAnother(0, lost), s.isReady(3)) })
			s.ready(3)
			got, err := c.Get(s.Ctx, "key-after-birth")
			if err != nil || got.Count != 1 {
				t.Errorf("what was written after the restore is gone: %v, %v", got, err)
			}
			_, err = c.Delete(s.Ctx, "key-after-birth")
			s.Must(err)
			s.holds()
			s.harmless()
		})
	}
}

// What keeps a cluster from being restored is said, and no empty cluster takes its place. Put right, it goes on.
func TestBirthThatCannotBe(t *testing.T) {
	s := newScene(t, restores)
	s.start()
	s.Claim("backups")
	s.create("{replicas: 3, restoreFrom: {destination: {claim: {name: backups}}, backup: 20260102T150405Z-0a1b2c3d}}")
	s.Until("the status says why", func() error {
		if said := s.get().Status.Message; !strings.Contains(said, "no backup 20260102T150405Z-0a1b2c3d") {
			return errors.New(said)
		}
		return nil
	})
	if text, _ := s.Log(name+"-0", "etcd"); text != "" {
		t.Errorf("etcd has begun: %s", text)
	}
	folder, err := s.VolumeFolder(s.Ctx, s.claim(0))
	s.Must(err)
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Errorf("the volume has %v, %v", entries, err)
	}
	s.change("{restoreFrom: null}")
	s.ready(3)
}

// With an operator that is killed at every step, a cluster comes back whole.
func TestKilledWhileItComesBack(t *testing.T) {
	harness.Long(t)
	s := newScene(t, restores)
	op := s.start()
	s.Claim("backups")
	const of = "replicas: 3, backup: {destination: {claim: {name: backups}}}"
	s.create("{" + of + "}")
	s.ready(3)
	s.write()
	if made := s.BackUp("first", etcdv1.Kind, name); made.Phase != backupv1.PhaseSucceeded {
		t.Fatalf("the backup: %+v", made)
	}
	s.Lose(s.get())
	op.Stop()
	m := &mortal{within: 2 * patience}
	s.create("{" + of + ", restoreFrom: {destination: {claim: {name: backups}}}}")
	m.live(s, func() error { return s.isReady(3) })
	s.ready(3)
	s.holds()
	s.harmless()
}
