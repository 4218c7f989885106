// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/mysql/cluster"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// demotions records the times at which the operator demotes a primary.
type demotions struct {
	mu  sync.Mutex
	all []time.Time
}

var _ cluster.Tap = &demotions{}

// Before records the time of a demotion.
func (d *demotions) Before(action replication.Action) error {
	if action == replication.ActionDemote {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, time.Now())
	}
	return nil
}

// After does nothing.
func (*demotions) After(replication.Action) error { return nil }

// switched limits the time between a demotion and a write that fails because of it.
const switched = 4 * time.Second

// explain returns the failed writes that no demotion explains.
func (d *demotions) explain(failures []failure) (others []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range failures {
		if !slices.ContainsFunc(d.all, func(at time.Time) bool { return f.at.After(at) && f.at.Before(at.Add(switched)) }) {
			others = append(others, fmt.Sprintf("%s: %d: %s", f.at.Format("15:04:05.000"), f.number, f.words))
		}
	}
	return others
}

// A changed option and then another image replace all pods while four clients write. Each time, the primary moves once, and writes fail
// only during the move.
func TestRolls(t *testing.T) {
	harness.FullForm(t, full)
	s, tap := newScene(t), &demotions{}
	s.start(func(_ *rest.Config, o *manager.Options) { o.MySQL.Tap = tap })
	s.create("replicas: 3")
	s.ready(3)
	defer s.staysWell()()
	writer := s.writers(4)
	for i, change := range []string{"{config: {max_connections: '70'}}", "{image: " + strings.Replace(image, "9.7.4", "9.7.5", 1) + "}"} {
		before, began := s.uids(3), time.Now()
		s.change(change)
		s.Until("all pods are replaced", func() error {
			if slices.ContainsFunc(s.uids(3), func(uid types.UID) bool { return slices.Contains(before, uid) }) {
				return errors.New("a pod is not replaced yet")
			}
			return s.isReady(3)
		})
		writer.again(time.Now())
		pause := writer.pause(began)
		t.Logf("%s: %.1f s; the longest pause between two acknowledged writes was %.1f s", change, time.Since(began).Seconds(), pause.Seconds())
		if limit := harness.Bound(3*time.Second, full); pause > limit {
			t.Errorf("no write was acknowledged for %s, and %s is promised", pause, limit)
		}
		assert.Equal(t, len(tap.all), i+1, "a roll moves the primary once")
	}
	writer.kept(3)
	others := tap.explain(writer.failed)
	t.Logf("%d writes failed when the primary moved, %d at other times: %v", len(writer.failed)-len(others), len(others), others)
	if full && len(others) > 0 { // no other test runs at the same time
		t.Error("writes failed when the primary did not move")
	}
}

// uids returns the UIDs of the pods.
func (s *scene) uids(members int) (uids []types.UID) {
	for ordinal := range members {
		if pod := s.pod(ordinal); pod != nil {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// A database with data changes to three members, five, three and one, while a client writes and the operator is killed at each change. Each
// new member has all data. With MYSQL_TESTS=full, the test writes 1 GiB of data.
func TestSizesKilledAtEveryStep(t *testing.T) {
	harness.FullForm(t, full)
	s := newScene(t)
	lives, mebibytes := &stage.Lives{Skip: 1}, 128 // a life ends at its second change
	if full {
		lives.Skip, mebibytes = 0, 1024
	}
	s.create("replicas: 1")
	s.live(lives, func() error { return s.isReady(1) })
	began := time.Now()
	s.fill(mebibytes)
	t.Logf("%d MiB were written in %.1f s", mebibytes, time.Since(began).Seconds())
	const rows = "SELECT COUNT(*), SUM(CRC32(b)) FROM ledger.big"
	want, err := s.ask(s.pod(0).Status.PodIP, rows)
	s.Must(err)
	writer := s.writers(4)
	for _, members := range []int{3, 5, 3, 1} {
		s.change(fmt.Sprintf("{replicas: %d}", members))
		s.live(lives, func() error {
			if err := s.isReady(members); err != nil {
				return err
			}
			return writer.writes()
		})
		for ordinal := range members {
			got, err := s.ask(s.pod(ordinal).Status.PodIP, rows)
			s.Must(err)
			assert.Equal(t, got, want, "member %d of %d", ordinal, members)
		}
	}
	writer.kept(1)
	t.Logf("%d operators ran; %d writes failed", lives.Begun, len(writer.failed))
}

// fill writes data to the only member.
func (s *scene) fill(mebibytes int) {
	s.Helper()
	s.Until("the account has its table", func() error {
		_, err := s.ask(s.pod(0).Status.PodIP, "CREATE TABLE IF NOT EXISTS ledger.big (id INT AUTO_INCREMENT PRIMARY KEY, b BLOB)")
		return err
	})
	for range mebibytes / 4 {
		_, err := s.ask(s.pod(0).Status.PodIP, "INSERT INTO ledger.big (b) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT REPEAT(UUID(), 111) FROM s")
		s.Must(err)
	}
}
