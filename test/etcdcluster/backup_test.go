// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
)

// restores adds etcd's restore programs to the images of etcd, and replaces the name of the cluster's Service by the name of the cluster's
// first pod.
func restores(o *emulator.Options) {
	for name, tool := range map[string]string{
		image: "etcdutl-3.6", image + ":v" + etcdtest.V34: "etcdctl-3.4", image + ":v" + etcdtest.V35: "etcdutl-3.5", image + ":v" + etcdtest.V37: "etcdutl-3.7",
	} {
		found, known := o.Images[name]
		if !known {
			continue
		}
		inside, _, _ := strings.Cut(tool, "-")
		found.Executables[inside] = filepath.Join(filepath.Dir(found.Executables["etcd"]), tool)
		found.Rewrite = func(pod *corev1.Pod, text string) string {
			service, first := "//my-etcd-cluster.", "//my-etcd-cluster-0.my-etcd-cluster-headless."
			return strings.ReplaceAll(text, service+pod.Namespace+".svc", first+pod.Namespace+".svc")
		}
		o.Images[name] = found
	}
}

// A cluster that is lost with all its data is restored from its backup, with another id and higher revisions. After the restore, a lost
// volume gets its data from the other members, and not from the backup. A backup of etcd 3.6 can be restored to etcd 3.7.
func TestRestoresFromABackup(t *testing.T) {
	harness.Long(t)
	for _, c := range []struct{ version, next string }{
		{etcdtest.V36, etcdtest.V36},
		{etcdtest.V36, etcdtest.V37},
		{etcdtest.V35, etcdtest.V35},
		{etcdtest.V34, etcdtest.V34},
	} {
		version := c.version
		if version != etcdtest.V36 && !full {
			continue
		}
		t.Run(version+" to "+c.next, func(t *testing.T) {
			s := newScene(t, restores)
			s.start()
			s.Claim("backups")
			const store = "{destination: {claim: {name: backups}}}"
			tls := "tls: {mode: Auto}"
			if version == etcdtest.V34 {
				tls = "tls: {mode: 'Off'}"
			}
			of := fmt.Sprintf("replicas: 3, %s, backup: %s", tls, store)
			s.create("{version: " + version + ", " + of + "}")
			s.ready(3)
			s.write()
			made := s.backedUp(version)
			before := s.get().Status.ClusterID
			s.Lose(s.get())

			s.create("{version: " + c.next + ", " + of + ", restoreFrom: " + store + "}")
			t.Logf("etcd %s: the backup of %d bytes took %s; ready again from it after %.1f s", version, made.Bytes, made.Duration, s.ready(3).Seconds())
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
			s.Until("a new member has replaced it", func() error { return errors.Join(s.isAnother(0, lost), s.isReady(3)) })
			s.ready(3)
			got, err := c.Get(s.Ctx, "key-after-birth")
			if err != nil || got.Count != 1 {
				t.Errorf("writes after the restore are lost: %v, %v", got, err)
			}
			_, err = c.Delete(s.Ctx, "key-after-birth")
			s.Must(err)
			s.holds()
			s.harmless()
		})
	}
}

// backedUp makes a backup of the cluster, and waits until the status reports the backup.
func (s *scene) backedUp(version string) backupv1.DataBackupStatus {
	s.Helper()
	made := s.BackUp("first", etcdv1.Kind, name)
	if made.Phase != backupv1.PhaseSucceeded || made.ID == "" || made.Revision < keys || made.StoredBytes == 0 || made.ServerVersion != version {
		s.Fatalf("the backup: %+v", made)
	}
	s.IsBackedUp(made.ID, func() (*backupv1.ClusterBackupStatus, []metav1.Condition) {
		status := &s.get().Status
		return status.Backup, status.Conditions
	})
	return made
}

// The status names the obstacle to a restore, and the operator creates no empty cluster instead. Without the obstacle, the restore
// continues.
func TestImpossibleRestoreIsReported(t *testing.T) {
	harness.Long(t) // the short form runs TestEtcdRefuses of the agent instead
	s := newScene(t, restores)
	s.start()
	s.Claim("backups")
	s.create("{replicas: 3, restoreFrom: {destination: {claim: {name: backups}}, backup: 20260102T150405Z-0a1b2c3d}}")
	s.Until("the status has the reason", func() error {
		if said := s.get().Status.Message; !strings.Contains(said, "no backup 20260102T150405Z-0a1b2c3d") {
			return errors.New(said)
		}
		return nil
	})
	if text, _ := s.Log(name+"-0", "etcd"); text != "" {
		t.Errorf("etcd has started: %s", text)
	}
	folder, err := s.VolumeFolder(s.Ctx, s.claim(0))
	s.Must(err)
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Errorf("the volume has %v, %v", entries, err)
	}
	s.change("{restoreFrom: null}")
	s.ready(3)
}

// A cluster is restored completely although the operator is killed at every step.
func TestKilledDuringARestore(t *testing.T) {
	harness.FullForm(t, full)
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

const right = "the value that was acknowledged"

// corrupt writes a wrong value to the databases of some members. These members do not detect the wrong value.
func (s *scene) corrupt(ordinals ...int) {
	s.Helper()
	for i, ordinal := range ordinals {
		release := s.hold(ordinal)
		volume, err := s.VolumeFolder(s.Ctx, s.claim(ordinal))
		s.Must(err)
		file := filepath.Join(volume, "etcd", "member", "snap", "db")
		data, err := os.ReadFile(file)
		s.Must(err)
		if !bytes.Contains(data, []byte(right)) {
			s.Fatalf("the database of member %d does not have the value", ordinal)
		}
		wrong := bytes.Replace([]byte(right), []byte("that"), fmt.Appendf(nil, "WRO%d", i), 1)
		s.Must(os.WriteFile(file, bytes.ReplaceAll(data, []byte(right), wrong), 0o600))
		release()
	}
	s.Until("all answer", func() error { return s.isReady(3) })
}

// alarm raises the alarm CORRUPT for a member, or for the whole cluster if member is 0, as the check by the leader does.
func (s *scene) alarm(member uint64) {
	s.Helper()
	c, err := s.dial(s.pod(1))
	s.Must(err)
	defer c.Close()
	_, err = etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Alarm(s.Ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: etcdserverpb.AlarmType_CORRUPT,
	})
	s.Must(err)
}

// memberID returns the id of a member.
func (s *scene) memberID(ordinal int) uint64 {
	s.Helper()
	id, err := strconv.ParseUint(s.ids()[int32(ordinal)], 16, 64)
	s.Must(err)
	return id
}

// lead makes a member the leader.
func (s *scene) lead(to int) {
	s.Helper()
	s.Until(fmt.Sprintf("member %d leads", to), func() error {
		leader, _ := s.leads()
		if leader == to {
			return nil
		}
		c, err := s.dial(s.pod(leader))
		s.Must(err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(s.Ctx, 5*time.Second)
		defer cancel()
		_, err = c.MoveLeader(ctx, s.memberID(to))
		return fmt.Errorf("the leader moves: %w", err)
	})
}

// rightEverywhere fails the test unless each member alone returns the correct value, and accepts writes.
func (s *scene) rightEverywhere() {
	s.Helper()
	for _, pod := range s.pods() {
		c, err := s.dial(pod)
		s.Must(err)
		found, err := c.Get(s.Ctx, "value", clientv3.WithSerializable())
		s.Must(err)
		s.Must(c.Close())
		if len(found.Kvs) != 1 || string(found.Kvs[0].Value) != right {
			s.Errorf("%s has %v", pod.Name, found.Kvs)
		}
	}
	s.put(1, "after", 0, 1, 2)
}

// The operator ends the alarm CORRUPT without a loss of correct data. If all members have the same keys, it replaces none. If the leader has
// wrong data and accuses a follower, it replaces the leader. If no two members have the same keys, it changes nothing, and the status names
// the reason.
func TestCorruptMembers(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	s.start()
	s.create("{replicas: 3}")
	s.ready(3)
	c, err := s.dial()
	s.Must(err)
	defer c.Close()
	_, err = c.Put(s.Ctx, "value", right)
	s.Must(err)
	s.Pass(time.Second) // the write is in all databases, and not only in the logs

	before := s.ids()
	began := time.Now()
	s.alarm(0)
	s.Eventually("the alarm ends", func() bool { return s.watchdog.had(began, membership.ActionDisarm) == 1 })
	s.ready(3)
	assert.DeepEqual(t, s.ids(), before)

	s.corrupt(1)
	s.lead(1)
	s.alarm(s.memberID(0))
	s.Until("the leader is replaced", func() error { return s.isAnother(1, before) })
	s.ready(3)
	now := s.ids()
	assert.Equal(t, now[0]+now[2], before[0]+before[2], "no other member is replaced")
	s.rightEverywhere()

	s.corrupt(1, 2)
	s.alarm(0)
	s.reports(etcdv1.PhaseDegraded, "CORRUPT: ")
	s.during("no quorum agrees", 5*time.Second)
	if ready := s.get().Status.Ready; ready != "0/3" {
		t.Errorf("ready is %s", ready)
	}
	s.harmless()
}
