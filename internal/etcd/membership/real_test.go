// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"

	"d3os.com/d3os-operator/test/harness/process"
)

// processes is a cluster of etcd processes without agents or an operator. There is at most one process per ordinal of the model, at a
// fixed address.
type processes struct {
	t       *testing.T
	program string
	guard   *process.Guard
	ips     [spots]string
	places  [spots]etcdProcess
	etcdIDs map[uint8]uint64 // member in the model -> ID in etcd
}

type etcdProcess struct {
	process *process.Process
	client  *clientv3.Client
	dir     string
}

// leaveToVerify skips a test that needs a real etcd if go test has the flag -short.
func leaveToVerify(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs etcd: make verify runs it, and go test without -short")
	}
}

func newProcesses(t *testing.T) *processes {
	t.Helper()
	r := &processes{t: t, etcdIDs: map[uint8]uint64{}, program: filepath.Join(os.Getenv("ETCD"), "etcd-3.6")}
	if os.Getenv("ETCD") == "" {
		r.program = "../../../bin/tools/etcds/etcd-3.6"
	}
	if _, err := os.Stat(r.program); err != nil {
		t.Fatalf("no etcd: run `make tools`, or name its folder in ETCD: %v", err)
	}
	network, err := process.ClaimNetwork()
	assert.NilError(t, err)
	for i := range r.ips {
		r.ips[i] = network.Next()
	}
	dir, err := os.MkdirTemp("", "model-") // r.guard removes it
	assert.NilError(t, err)
	if r.guard, err = process.NewGuard(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for place := range r.places {
			r.stop(place)
		}
		if err := errors.Join(r.guard.End(), network.Release()); err != nil {
			t.Error(err)
		}
	})
	for i := range r.places {
		r.places[i].dir = filepath.Join(dir, fmt.Sprint(i))
	}
	return r
}

func (r *processes) peerURL(place int) string { return "http://" + r.ips[place] + ":2380" }

// start starts etcd at an ordinal: on its data, or as a new member with this member list.
func (r *processes) start(place int, state string, members ...string) {
	r.t.Helper()
	at := &r.places[place]
	assert.NilError(r.t, os.MkdirAll(at.dir, 0o700))
	log, err := os.OpenFile(at.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	assert.NilError(r.t, err)
	defer log.Close()
	client := "http://" + r.ips[place] + ":2379"
	argv := []string{
		r.program, "--name=" + names[place], "--data-dir=" + filepath.Join(at.dir, "etcd"), "--listen-peer-urls=" + r.peerURL(place),
		"--initial-advertise-peer-urls=" + r.peerURL(place), "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--initial-cluster-state=" + state, "--initial-cluster=" + strings.Join(members, ","), "--heartbeat-interval=50", "--election-timeout=500",
	}
	if at.process, err = r.guard.Start(argv, []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=2"}, at.dir, log); err != nil {
		r.t.Fatal(err)
	}
	at.client, err = clientv3.New(clientv3.Config{
		Endpoints: []string{client}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithNoProxy()},
	})
	assert.NilError(r.t, err)
}

// stop kills the process at an ordinal.
func (r *processes) stop(place int) {
	at := &r.places[place]
	if at.process != nil {
		at.process.Kill()
		_ = at.client.Close()
		at.process, at.client = nil, nil
	}
}

// wipe stops the process at an ordinal and removes its data.
func (r *processes) wipe(place int) {
	r.t.Helper()
	r.stop(place)
	assert.NilError(r.t, os.RemoveAll(r.places[place].dir))
}

// clients returns clients of the running voters.
func (r *processes) clients(w *world) (all []*clientv3.Client) {
	for _, m := range w.members {
		if m.id != 0 && !m.learner && w.runs(m.id) {
			all = append(all, r.places[m.place].client)
		}
	}
	return all
}

// any calls the running voters one after the other until a call succeeds.
func (r *processes) any(within time.Duration, w *world, call func(context.Context, *clientv3.Client) error) error {
	err := errors.New("no voter runs")
	for _, c := range r.clients(w) {
		ctx, cancel := context.WithTimeout(r.t.Context(), within)
		err = call(ctx, c)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// list returns the member list in the notation of the model. All running voters must return the same list.
func (r *processes) list(w *world) (string, error) {
	said := ""
	for _, c := range r.clients(w) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Second)
		found, err := c.MemberList(ctx)
		cancel()
		if err != nil {
			return "", err
		}
		list := key(r.named(found))
		if said != "" && list != said {
			return "", fmt.Errorf("one voter returns %q, another one %q", said, list)
		}
		said = list
	}
	return said, nil
}

// named returns a member list with the IDs and addresses of the model.
func (r *processes) named(found *clientv3.MemberListResponse) (list []Member) {
	for _, m := range found.Members {
		id := uint8(0)
		for known, is := range r.etcdIDs {
			if is == m.ID {
				id = known
			}
		}
		place := slices.IndexFunc(r.ips[:], func(ip string) bool { return strings.Contains(m.PeerURLs[0], "//"+ip+":") })
		list = append(list, Member{ID: ID(id), Name: m.Name, PeerURLs: urls()[place : place+1], Learner: m.IsLearner})
	}
	slices.SortFunc(list, func(a, b Member) int { return int(a.ID) - int(b.ID) })
	return list
}

// quorate reports whether a read that needs a quorum succeeds.
func (r *processes) quorate(within time.Duration, w *world) bool {
	return r.any(within, w, func(ctx context.Context, c *clientv3.Client) error { _, err := c.Get(ctx, "any"); return err }) == nil
}

// until waits until an asynchronous change in etcd is complete.
func (r *processes) until(what string, holds func() error) {
	r.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(r.t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		last = holds()
		return last == nil, nil
	})
	if err != nil {
		r.t.Fatalf("%s: %v", what, errors.Join(err, last))
	}
}

// Plain etcd loses an acknowledged write: on an empty volume, it starts as its former member, and votes. The agent
// prevents that (test/etcdcluster, TestDataOfThePast). If a later version of etcd refuses to start, this test fails.
// The test concerns only etcd, so make test omits it.
func TestPlainEtcdRejoinsEmpty(t *testing.T) {
	leaveToVerify(t)
	t.Parallel()
	r := newProcesses(t)
	var members []string
	for place := range 3 {
		members = append(members, names[place]+"="+r.peerURL(place))
	}
	for place := range 3 {
		r.start(place, "new", members...)
	}
	put := func(key string) {
		r.until("write "+key, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := r.places[0].client.Put(ctx, key, "x")
			return err
		})
	}
	// Before the second member is killed, it must have received the cluster's version: otherwise the third member
	// cannot rejoin. It must also have received the last write, which proves that its log contains all earlier entries.
	put("first")
	r.until("the second member knows the version of the cluster", func() error {
		version, err := http.Get("http://" + r.ips[1] + ":2379/version")
		if err != nil {
			return err
		}
		defer version.Body.Close()
		if text, err := io.ReadAll(version.Body); err != nil || !strings.Contains(string(text), `"etcdcluster":"3.`) {
			return fmt.Errorf("%s (%w)", text, err)
		}
		return nil
	})
	put("before")
	r.until("the second member has the last write", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		found, err := r.places[1].client.Get(ctx, "before", clientv3.WithSerializable())
		if err == nil && found.Count == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	r.stop(1)
	put("acked")
	r.stop(0)
	r.wipe(2)
	r.start(1, "existing", members...)
	r.until("a quorum answers", func() error {
		if !r.places[2].process.Runs() { // etcd keeps exiting until the other member serves its peers
			r.start(2, "existing", members...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		found, err := r.places[1].client.Get(ctx, "acked")
		if err == nil && found.Count > 0 {
			t.Fatal("plain etcd does not lose the write any more")
		}
		return err
	})
}
