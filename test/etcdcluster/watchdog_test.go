// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/internal/etcd/membership"
	etcdserver "d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/test/databasetest/etcdtest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// watchdog records each change that an operator makes. Before the operator deletes a pod, the watchdog reads the state of the members and
// checks that the remaining members are a quorum.
type watchdog struct {
	scene *scene

	mu      sync.Mutex
	effects []effect
	harm    []string
	checks  int
	parked  bool // the spec requests 0 members, so pods may be deleted
}

// effect is one change by the operator.
type effect struct {
	at   time.Time
	what membership.Action
}

var _ etcdserver.Tap = &watchdog{}

// Before and After implement server.Tap.
func (*watchdog) Before(membership.Action) error { return nil }

func (w *watchdog) After(action membership.Action) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects = append(w.effects, effect{time.Now(), action})
	return nil
}

// wrap checks the operator's requests to the API server.
func (w *watchdog) wrap(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(req *http.Request) (*http.Response, error) {
		r := harness.Parse(req.Method, req.URL, req.Header.Get("Content-Type"))
		switch {
		case r.Verb == "delete" && r.Resource == "pods":
			w.check("pod "+r.Name+" is deleted", func(pod string) bool { return pod == r.Name })
		case r.Resource == "statefulsets" && r.Writes() && req.Body != nil:
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			var set struct{ Spec struct{ Replicas *int } }
			if json.Unmarshal(body, &set) == nil && set.Spec.Replicas != nil && *set.Spec.Replicas < len(w.scene.pods()) {
				w.check(fmt.Sprintf("the StatefulSet gets %d pods", *set.Spec.Replicas), func(pod string) bool {
					ordinal := 0
					_, err := fmt.Sscanf(strings.TrimPrefix(pod, name+"-"), "%d", &ordinal)
					return err == nil && ordinal >= *set.Spec.Replicas
				})
			}
		}
		return next.RoundTrip(req)
	})
}

// check records harm if the voters that answer are a quorum, but not without the pods for which goes returns true. Clusters of one or two
// members are exempt, because their pods cannot be replaced without a pause.
func (w *watchdog) check(what string, goes func(pod string) bool) {
	w.mu.Lock()
	w.checks++
	parked := w.parked
	w.mu.Unlock()
	if parked {
		return
	}
	problem := ""
	for range 3 { // an election takes a moment, so the check is repeated
		voters := w.scene.voters()
		stay, all, taken := 0, 0, 0
		for pod, answers := range voters {
			all++
			switch {
			case goes(pod):
				if answers {
					taken++
				}
			case answers:
				stay++
			}
		}
		if all == 0 || stay+taken < all/2+1 || stay >= all/2+1 || taken == 1 && all <= 2 {
			return
		}
		problem = fmt.Sprintf("%s: of %d voters, %d stay and answer: %v", what, all, stay, voters)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harm = append(w.harm, problem)
}

// voters returns the pods with a vote, and whether each answers a quorum read. The result is empty if no member answers.
func (s *scene) voters() map[string]bool {
	pods := s.pods()
	var mu sync.Mutex
	var all sync.WaitGroup
	answers, members := map[string]bool{}, map[string]bool{}
	for _, pod := range pods {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Second)
			defer cancel()
			c, err := s.dial(pod)
			if err != nil {
				return
			}
			defer c.Close()
			if _, err := c.Get(ctx, "health"); err != nil {
				return
			}
			list, err := c.MemberList(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[pod.Name] = true
			for _, m := range list.Members {
				if !m.IsLearner {
					members[m.Name] = true
				}
			}
		})
	}
	all.Wait()
	for member := range members {
		members[member] = answers[member]
	}
	return members
}

// had returns the number of the operator's effects since a time.
func (w *watchdog) had(since time.Time, actions ...membership.Action) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.effects {
		if e.at.After(since) && (len(actions) == 0 || slices.Contains(actions, e.what)) {
			n++
		}
	}
	return n
}

// harmless fails the test if the operator broke a quorum.
func (s *scene) harmless() {
	s.Helper()
	w := s.watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, harm := range w.harm {
		s.Error(harm)
	}
	s.Logf("the operator had %d effects; %d times it removed pods, and the remaining voters were a quorum each time", len(w.effects), w.checks)
}

// load starts clients that write to and read from the ready members.
func (s *scene) load() *etcdtest.Load {
	s.Helper()
	return etcdtest.NewLoad(s.T, func(number int) (*clientv3.Client, error) {
		pods := slices.DeleteFunc(s.pods(), func(pod *corev1.Pod) bool { return !stage.IsReady(pod) })
		if len(pods) == 0 {
			return nil, errors.New("no pod is ready")
		}
		return s.dial(pods[number%len(pods)])
	})
}

// moved limits the time between a move of the leader, or the deletion of a pod, and a request that fails because of it.
const moved = 4 * time.Second

// explained counts the failed requests of a load by the change that the operator made at that time. It fails the test
// if the operator made no such change when a request failed.
func (s *scene) explained(load *etcdtest.Load) {
	s.Helper()
	leader, pod, neither := 0, 0, 0
	for _, failure := range load.Failures() {
		near := func(actions ...membership.Action) bool {
			s.watchdog.mu.Lock()
			defer s.watchdog.mu.Unlock()
			return slices.ContainsFunc(s.watchdog.effects, func(e effect) bool {
				return slices.Contains(actions, e.what) && failure.At.After(e.at.Add(-moved/2)) && failure.At.Before(e.at.Add(moved))
			})
		}
		switch {
		case near(membership.ActionMoveLeader):
			leader++
		case near(membership.ActionDeletePod, membership.ActionRemove, membership.ActionRecord):
			pod++
		default:
			neither++
			s.Logf("failed at %s: %v", failure.At.Format("15:04:05.000"), failure.Err)
		}
	}
	s.Logf("failed requests: %d when the leader was moved, %d when a pod ended, %d at other times", leader, pod, neither)
	if neither > 0 {
		s.Errorf("%d requests failed when the operator did nothing", neither)
	}
}
