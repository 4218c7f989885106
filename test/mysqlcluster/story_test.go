// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mysql

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// story is a random sequence of faults and changes while four clients write. Its seed determines the sequence.
type story struct {
	*scene
	*rand.Rand

	operator *stage.Operator
}

// event is one fault or change of a story. begin returns the function that ends the event, or nil.
type event struct {
	what string
	// isAlone reports whether the event needs a healthy database, because it destroys a copy of the data or changes the members.
	isAlone bool
	begin   func(s *story) (end func())
}

var events = []event{
	{"a member is killed", false, func(s *story) func() { s.signal(s.IntN(3), syscall.SIGKILL); return nil }},
	{"the primary is killed", false, func(s *story) func() { s.signal(s.primary(), syscall.SIGKILL); return nil }},
	{"all members are killed", false, func(s *story) func() {
		for ordinal := range 3 {
			s.signal(ordinal, syscall.SIGKILL)
		}
		return nil
	}},
	{"the primary hangs", false, func(s *story) func() { return s.hang(s.primary()) }},
	{"a member hangs", false, func(s *story) func() { return s.hang(s.IntN(3)) }},
	{"a node fails", false, func(s *story) func() {
		node := s.Nodes()[s.IntN(3)]
		if s.StopNode(s.Ctx, node) != nil { // the node has failed already
			return nil
		}
		return func() { s.Must(s.StartNode(s.Ctx, node)) }
	}},
	{"agents do not reach each other", false, func(s *story) func() {
		a, b := fmt.Sprintf("%s-%d", name, s.IntN(3)), fmt.Sprintf("%s-%d", name, s.IntN(3))
		s.Cut(a, b)
		return func() { s.Mend(a, b) }
	}},
	{"the operator ends", false, func(s *story) func() {
		if s.operator == nil {
			return nil
		}
		s.operator.Stop()
		s.operator = nil
		return func() { s.operator = s.start() }
	}},
	{"a pod is deleted", false, func(s *story) func() {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", name, s.IntN(3))}}
		s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, pod)))
		return nil
	}},
	{"a user selects another primary", false, func(s *story) func() {
		s.change(fmt.Sprintf("{replication: {primary: %d}}", s.IntN(3)))
		return nil
	}},
	{"an option changes", false, func(s *story) func() {
		s.change(fmt.Sprintf("{config: {max_connections: '%d'}}", 60+s.IntN(20)))
		return nil
	}},
	{"a volume is lost", true, func(s *story) func() { return s.wipe(s.IntN(3)) }},
	{"the primary's volume is lost", true, func(s *story) func() { return s.wipe(s.primary()) }},
	{"a replica has a transaction that the primary lacks", true, func(s *story) func() {
		from, ordinal := s.Mark(), (s.primary()+1)%3
		s.Must(s.root(ordinal, "SET GLOBAL super_read_only = OFF; CREATE DATABASE IF NOT EXISTS strange; SET GLOBAL super_read_only = ON"))
		return func() { s.unready(from) }
	}},
	{"two members, then three again", true, func(s *story) func() {
		s.change("{replicas: 2, replication: {primary: null}}")
		return func() { s.change("{replicas: 3}") }
	}},
}

// signal sends a signal to a running member.
func (s *story) signal(ordinal int, signal syscall.Signal) {
	if err := s.Kill(fmt.Sprintf("%s-%d", name, ordinal), signal, "mysql"); err != nil {
		s.Logf("no signal: %v", err)
	}
}

// wipe deletes the data of a member. The returned function waits until the operator has detected the loss. Until then, no other event may
// delete more data.
func (s *story) wipe(ordinal int) (end func()) {
	from := s.Mark()
	s.Must(s.WipeVolume(s.Ctx, claim(ordinal)))
	s.signal(ordinal, syscall.SIGKILL)
	return func() { s.unready(from) }
}

// rootClient returns the command of a client of a member as root, by its socket.
func (s *scene) rootClient(ordinal int, args ...string) (*exec.Cmd, error) {
	pod := s.pod(ordinal)
	sockets, err := filepath.Glob(filepath.Join(s.run, string(pod.UID[:8]), "*.sock"))
	if err != nil || len(sockets) != 1 {
		return nil, fmt.Errorf("find the socket of %s: %v, %w", pod.Name, sockets, err)
	}
	command := s.client("", append([]string{"--socket=" + sockets[0], "--user=root"}, args...)...)
	password := harness.Lookup[*corev1.Secret](s.Journal, name+"-credentials").Data["root-password"]
	command.Env = append(os.Environ(), "MYSQL_PWD="+string(password))
	return command, nil
}

// root runs SQL on a member as root.
func (s *scene) root(ordinal int, sql string) error {
	command, err := s.rootClient(ordinal, "--execute="+sql)
	if err != nil {
		return err
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", sql, err, out)
	}
	return nil
}

// sameSets returns an error if the members have different transactions, or nil.
func (s *scene) sameSets() error {
	var first string
	for ordinal := range 3 {
		set, err := s.ask(s.pod(ordinal).Status.PodIP, "SELECT @@GLOBAL.gtid_executed")
		if err != nil {
			return err
		}
		if set = strings.ReplaceAll(set, "\\n", ""); ordinal == 0 {
			first = set
		}
		if set != first {
			return fmt.Errorf("member %d has %s, and member 0 has %s", ordinal, set, first)
		}
	}
	return nil
}

// act runs an event, and sometimes a second one at the same time, and ends them after a while. Before and after an event that needs a
// healthy database, act waits until the database is healthy.
func (s *story) act() {
	e := events[s.IntN(len(events))]
	if e.isAlone {
		s.ready(3)
	}
	s.Logf("story: %s", e.what)
	ends := []func(){e.begin(s)}
	if other := events[s.IntN(len(events))]; !e.isAlone && !other.isAlone && s.IntN(3) == 0 {
		s.Pass(time.Duration(s.IntN(3000)) * time.Millisecond)
		s.Logf("story: and %s", other.what)
		ends = append(ends, other.begin(s))
	}
	s.Pass(time.Duration(s.IntN(12000)) * time.Millisecond)
	for _, end := range ends {
		if end != nil {
			end()
		}
	}
	if e.isAlone || s.IntN(2) == 0 {
		s.Logf("story: healthy after %.1f s", s.ready(3).Seconds())
	}
}

// During faults of members, nodes, volumes and the operator, no acknowledged write is lost and no refused write exists,
// as long as one copy exists. By default, the same three short stories run (one in the short form). MYSQL_STORIES is
// the number of longer stories; SEED determines their seeds. MYSQL_STORY is the seed of a single story.
func TestStories(t *testing.T) {
	seeds, length := []uint64{78321, 406264, 592172}, 3
	if !full {
		seeds = seeds[:1]
	}
	if text := os.Getenv("MYSQL_STORIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		first := uint64(1)
		if text := os.Getenv("SEED"); text != "" {
			if first, err = strconv.ParseUint(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("SEED=%d repeats these stories", first)
		draw := rand.New(rand.NewPCG(first, 0)) // #nosec G404 -- stories that can be repeated
		seeds, length = nil, 8
		for range n {
			seeds = append(seeds, draw.Uint64N(1e6))
		}
	}
	if text := os.Getenv("MYSQL_STORY"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &story{scene: newScene(t), Rand: rand.New(rand.NewPCG(seed, 0))}
			s.operator = s.start()
			s.create("replicas: 3")
			s.ready(3)
			writer := s.writers(4)
			for range length {
				s.act()
			}
			s.ready(3)
			writer.again(time.Now())
			writer.kept(3)
			s.Until("the members have the same transactions", s.sameSets)
			if len(writer.acked) < 50 {
				t.Error(errors.New("the clients wrote too little"))
			}
		})
	}
}
