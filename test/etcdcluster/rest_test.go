// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// asked is how often a member was asked for each thing since it started, by its own count.
func (s *scene) asked(pod *corev1.Pod) map[string]int {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://"+net.JoinHostPort(pod.Status.PodIP, "2381")+"/metrics", http.NoBody)
	s.Must(err)
	response, err := http.DefaultClient.Do(request)
	s.Must(err)
	defer response.Body.Close()
	found := map[string]int{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "grpc_server_started_total{")
		if !ok {
			continue
		}
		_, method, _ := strings.Cut(labels, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		var n float64
		if _, err := fmt.Sscan(labels[strings.LastIndex(labels, " ")+1:], &n); err != nil {
			s.Fatal(err)
		}
		found[method] += int(n)
	}
	s.Must(lines.Err())
	if found["Status"] == 0 {
		s.Fatalf("%s does not tell how often it was asked: %v", pod.Name, found)
	}
	return found
}

// quiet waits until an operator asks and tells the API server nothing for a while.
func (s *scene) quiet(op *stage.Operator) {
	s.Helper()
	s.Until("it has looked around", func() error {
		mark := op.Mark()
		s.Pass(3 * time.Second)
		if sent := op.Since(mark, func(r harness.Sent) bool { return r.Reads() || r.Writes() }); len(sent) > 0 {
			return fmt.Errorf("it asks: %v", sent)
		}
		return nil
	})
}

// At rest the API server is asked for nothing and told nothing, and each member is asked every 30 seconds, and told nothing; by
// an operator that has just started, too.
func TestAtRest(t *testing.T) {
	harness.Long(t)
	s := newScene(t)
	op := s.start()
	s.create("{replicas: 3, tls: {mode: Auto}}")
	s.ready(3)
	op.Stop()
	op = s.start()
	s.quiet(op)
	looks := 35 * time.Second
	if full {
		looks = 10 * time.Minute
	}
	before := map[string]map[string]int{}
	for _, pod := range s.pods() {
		before[pod.Name] = s.asked(pod)
	}
	began := time.Now()
	s.AsksNothing(op, looks)
	most, bound := 0, int(time.Since(began)/(30*time.Second))+1
	for _, pod := range s.pods() {
		for method, n := range s.asked(pod) {
			n -= before[pod.Name][method]
			switch method {
			case "Status":
				most = max(most, n)
			case "MemberList", "Range": // two lists and a read, each time
			default:
				if n > 0 {
					t.Errorf("%s was sent %s %d times", pod.Name, method, n)
				}
			}
		}
	}
	t.Logf("%s at rest: each member was asked %d times at most (bound %d), and told nothing", time.Since(began).Round(time.Second), most, bound)
	if most > bound || most == 0 {
		t.Errorf("a member was asked %d times, bound %d", most, bound)
	}
}
