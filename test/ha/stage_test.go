// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

// Package ha_test runs the operator as two processes, one of which leads, and ends the leader in every possible way. `make suite-ha` runs it. The API
// server's audit log contains the author and time of each write, and the holders of the Lease.
package ha_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	// patience is the default time limit; the machine may be busy.
	patience = 90 * time.Second
	// unrest is the interval of changes that require writes of the leader.
	unrest = 60 * time.Millisecond
)

// scene is a namespace with a DataService and the replicas of the operator that reconcile it.
type scene struct {
	*stage.Stage

	replicas     int // started so far
	service      *dsv1.DataService
	plan         oracle.State    // state of the objects with the first spec
	leads, works []time.Duration // times of each take-over: until another replica led, and until that replica had written
}

// newScene brings a DataService up with the first replica, which leads from then on.
func newScene(t *testing.T) (*scene, *replica) {
	t.Helper()
	t.Parallel()
	s := &scene{Stage: suite.New(t)}
	first := s.start()
	s.until("the first replica leads", func() bool { return s.story().holder(time.Now()) == first.name })
	s.service = s.DataService(s.CreateReady(harness.Sample()))
	s.plan = s.objects()
	return s, first
}

// until waits until a condition holds.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	s.Until("wait until "+what, func() error {
		if holds() {
			return nil
		}
		return errors.New("the condition does not hold")
	})
}

// story returns the audit log of the namespace.
func (s *scene) story() story {
	s.Helper()
	log, err := auditor.story(s.Namespace)
	s.Must(err)
	return log
}

// disturb changes the DataService and deletes its objects until the returned function is called, so that the leader has something to write
// at any time.
func (s *scene) disturb() (stop func()) {
	ctx, cancel := context.WithCancel(s.Ctx)
	var group sync.WaitGroup
	n := 0
	group.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := s.disturbOnce(ctx, n); err != nil && ctx.Err() == nil {
				s.Errorf("disturb: %v", err)
				cancel()
			}
			n++
		}, unrest)
	})
	return func() { cancel(); group.Wait() }
}

func (s *scene) disturbOnce(ctx context.Context, n int) error {
	if n%2 == 0 {
		gone := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web"}}
		return client.IgnoreNotFound(suite.API.Delete(ctx, gone))
	}
	patch := fmt.Sprintf(`{"spec":{"auth":{"env":{"TURN":%q}}}}`, strconv.Itoa(n))
	return suite.API.Patch(ctx, s.service.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// settle restores the first spec of the DataService and compares the result with the state at the start.
func (s *scene) settle() {
	s.Helper()
	s.ChangeReady(s.service.Name, harness.Fields{"auth": harness.Fields{"env": nil}}) // the sample does not set this field
	s.Until("the objects are as they were", func() error {
		if diff := oracle.Diff(s.plan, s.objects()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// objects returns the state of the objects in the namespace.
func (s *scene) objects() oracle.State {
	s.Helper()
	state, err := oracle.Read(s.Ctx, suite.API, s.Namespace, object.Kinds...)
	s.Must(err)
	if len(state) == 0 {
		s.Fatal("the operator manages nothing")
	}
	return state
}

// The state that all cases share.
var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience },
		Lists:    []client.ObjectList{&dsv1.DataServiceList{}},
	}
	auditor *audit
	binary  string // path of the operator's program
	runs    = 3    // number of runs of each case; HA_RUNS overrides it
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "d3os-ha-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	policy := filepath.Join(cluster.Root(), "test", "ha", "audit.yaml")
	return suite.Main(m, cluster.Options{Name: "ha", Nodes: 8, Audit: policy}, func(ctx context.Context) error {
		return prepare(ctx, dir)
	})
}

// prepare builds the operator.
func prepare(ctx context.Context, dir string) error {
	auditor = &audit{path: suite.AuditLog, stories: map[string]*story{}}
	if given := os.Getenv("HA_RUNS"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 {
			return fmt.Errorf("HA_RUNS is %q, not a number of runs", given)
		}
		runs = n
	}
	var err error
	binary, err = harness.Build(ctx, cluster.Root(), dir)
	return err
}
