// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/test/harness"
)

// archived is the spec of a database whose transactions are archived. broughtTo is the spec of a database that is restored to a moment from
// the backup and the archive of the first database.
const (
	archived  = "replicas: %d\nbackup: {destination: {claim: {name: backups}}, pointInTime: {interval: 5s}}\n"
	broughtTo = archived + "restoreFrom: {destination: {claim: {name: backups}}, toTime: %q}\n"
)

// reached returns the moment up to which the archive is complete, according to the pod that archives.
func (s *scene) reached() (time.Time, error) {
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		if pod.Labels["app.kubernetes.io/name"] != "mysql.cluster.archive" || pod.Status.PodIP == "" {
			continue
		}
		request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://"+pod.Status.PodIP+":8080/ready", http.NoBody)
		if err != nil {
			return time.Time{}, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return time.Time{}, err
		}
		defer response.Body.Close()
		var report struct{ Reached time.Time }
		return report.Reached, json.NewDecoder(response.Body).Decode(&report)
	}
	return time.Time{}, errors.New("no pod archives")
}

// reaches waits until the archive has reached a moment.
func (s *scene) reaches(moment time.Time) {
	s.Helper()
	s.Until("the archive has the moment", func() error {
		at, err := s.reached()
		if err == nil && at.Before(moment) {
			err = fmt.Errorf("it has reached %s, want %s", at, moment)
		}
		return err
	})
}

// A database that is lost with all its data is restored to a moment after a failover. Four clients wrote during that time.
func TestPointInTime(t *testing.T) {
	harness.FullForm(t, full)
	const members = 3
	s := newScene(t)
	s.start()
	s.Claim("backups")
	s.create(fmt.Sprintf(archived, members))
	s.ready(members)
	s.Until("the archive works", func() error {
		_, err := s.reached()
		return err
	})
	writer := s.writers(4)
	made := s.BackUp("first", mysqlv1.Kind, name)
	assert.Equal(t, made.Phase, backupv1.PhaseSucceeded, "%+v", made)
	began := time.Now()
	s.Must(s.Kill(s.pod(s.primary()).Name, syscall.SIGKILL, "mysql"))
	writer.again(began)
	s.ready(members)
	writer.again(time.Now())
	writer.mu.Lock()
	moment, last := time.Now(), writer.next
	writer.mu.Unlock()
	writer.again(time.Now())
	writer.kept(members)
	all := map[string]bool{}
	for _, row := range s.agree(members) {
		all[row] = true
	}
	s.reaches(moment)
	s.Until("the latest moments can be restored", func() error {
		if c := meta.FindStatusCondition(s.get().Status.Conditions, mysqlv1.ConditionRecoverable); c == nil || c.Status != "True" {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
	s.Lose(s.get())
	s.create(fmt.Sprintf(broughtTo, members, moment.UTC().Format(time.RFC3339Nano)))
	s.Logf("ready at the moment after %.1f s", s.ready(members).Seconds())
	there, wrong := map[int]bool{}, 0
	for _, row := range s.agree(members) {
		n, err := strconv.Atoi(row)
		s.Must(err)
		if there[n] = true; n > last || !all[row] {
			wrong++
		}
	}
	missing := 0
	for n, at := range writer.acked {
		if at.Before(moment) && !there[n] {
			missing++
		}
	}
	s.Logf("%d of %d rows were restored", len(there), len(all))
	if wrong+missing > 0 || len(there) == 0 || len(there) == len(all) {
		t.Errorf("of %d rows, %d should not be there, and %d are missing", len(there), wrong, missing)
	}
	next := s.write()
	next.again(time.Now())
	next.kept(members)
}
