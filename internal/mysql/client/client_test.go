// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/mysqlmember"
	"d3os.com/d3os-operator/internal/mysql/replication"
)

// golden reads a document of the contract between operator and agent.
func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../contract/testdata/mysql-" + name)
	assert.NilError(t, err)
	return strings.TrimSpace(string(text))
}

// An order contains the fields of its step. The client decodes each answer.
func TestClient(t *testing.T) {
	t.Parallel()
	var path, body string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		path, body = r.Method+" "+r.URL.Path, string(text)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, golden(t, "answer.json"))
	}))
	t.Cleanup(s.Close)
	c := &Client{HTTP: s.Client(), URL: func(int) string { return s.URL }, Source: func(i int) (string, int) { return map[int]string{2: "h"}[i], 3306 }}
	a, err := c.Look(t.Context(), 1)
	assert.NilError(t, err)
	assert.Equal(t, path, "GET /state")
	read, err := json.Marshal(a)
	assert.NilError(t, err)
	assert.Equal(t, string(read), golden(t, "answer.json"))

	step := replication.Step{
		Action: replication.ActionFollow, Member: replication.Member{Identity: replication.Identity{Ordinal: 1, Server: "uuid"}, Instance: "i1", Orders: 1}, Epoch: 4, Revision: 9, Renew: true,
		Source: replication.Identity{Ordinal: 2, Server: "uuid2"}, Personal: true, Servers: map[int]string{2: "uuid2"}, Acknowledge: true, Demands: 1, CutVoters: []int{1}, CutOthers: []int{2},
	}
	assert.NilError(t, c.Order(t.Context(), step))
	assert.Equal(t, path, "POST /follow")
	assert.Equal(t, body, golden(t, "order.json"))

	step.Member.Orders = 0
	assert.NilError(t, c.Order(t.Context(), step))
	assert.Assert(t, !strings.Contains(body, `"server":"uuid2"`), "an older agent refuses the field: %s", body)
	step.Member.Orders = 1

	status = http.StatusConflict
	assert.ErrorContains(t, c.Order(t.Context(), step), "order member 1 to follow: the agent answers Refused: the message")
	step.Action = replication.ActionRecord
	assert.ErrorContains(t, c.Order(t.Context(), step), "Record is not an order")
	s.Close()
	_, err = c.Look(t.Context(), 1)
	assert.ErrorContains(t, err, "read the state of member 1")
}

// A member is silent after three failed queries, and bad after ten seconds.
func TestObserver(t *testing.T) {
	t.Parallel()
	const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-"
	primary := mysqlmember.State{Role: replication.RolePrimary, Executed: uuid + "5", Received: uuid + "5", Writable: true, Servers: map[int]string{1: "b"}, Waiting: 1}
	replica := mysqlmember.State{Role: replication.RoleReplica, Executed: uuid + "5", Received: uuid + "6", Connected: true, Personal: true}
	record := replication.Record{Formed: true, Primary: replication.Identity{Server: "a"}}
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		change   func(p, r *mysqlmember.State) error
		seconds  int
		is       func(p, r replication.Member) bool
		negative bool
	}{
		"well": {nil, 30, func(p, r replication.Member) bool {
			return p.Running && p.Writable && p.Orders == 2 && p.Servers[1] == "b" && r.Personal && r.Running && r.CaughtUp && r.Executed["3e11fa47-71ca-11e1-9e33-c80aa9429562"] != nil && !r.Bad && !r.Silent && !p.Bad
		}, false},
		"two failed looks":             {func(_, _ *mysqlmember.State) error { return gone }, 1, func(_, r replication.Member) bool { return r.Silent || r.Answers }, true},
		"three failed looks":           {func(_, _ *mysqlmember.State) error { return gone }, 2, func(_, r replication.Member) bool { return r.Silent && !r.Bad }, false},
		"gone for long":                {func(_, _ *mysqlmember.State) error { return gone }, 10, func(_, r replication.Member) bool { return r.Bad }, false},
		"not connected":                {func(_, r *mysqlmember.State) error { r.Connected = false; return nil }, 10, func(_, r replication.Member) bool { return r.Bad && !r.CaughtUp && !r.Silent }, false},
		"connected to another server":  {func(_, r *mysqlmember.State) error { r.SourceServer = "c"; return nil }, 10, func(_, r replication.Member) bool { return r.Bad && !r.CaughtUp && !r.Connected }, false},
		"connected to the primary":     {func(_, r *mysqlmember.State) error { r.SourceServer = "a"; return nil }, 30, func(_, r replication.Member) bool { return !r.Bad && r.CaughtUp && r.Connected }, false},
		"not connected, not long":      {func(_, r *mysqlmember.State) error { r.Connected = false; return nil }, 9, func(_, r replication.Member) bool { return r.Bad }, true},
		"not connected, cut off":       {func(p, r *mysqlmember.State) error { p.Cut, r.Connected = []int{1}, false; return nil }, 30, func(_, r replication.Member) bool { return r.Bad }, true},
		"an error of the applier":      {func(_, r *mysqlmember.State) error { r.Problem = "x"; return nil }, 10, func(_, r replication.Member) bool { return r.Bad && !r.CaughtUp }, false},
		"lag":                          {func(_, r *mysqlmember.State) error { r.Lag = 11; return nil }, 10, func(_, r replication.Member) bool { return r.Bad && !r.CaughtUp }, false},
		"little lag":                   {func(_, r *mysqlmember.State) error { r.Lag = 10; return nil }, 30, func(_, r replication.Member) bool { return r.Bad || r.CaughtUp }, true},
		"an invalid GTID set":          {func(_, r *mysqlmember.State) error { r.Executed = "x"; return nil }, 2, func(_, r replication.Member) bool { return r.Answers && !r.Running && r.Silent }, false},
		"commits wait":                 {nil, 5, func(p, _ replication.Member) bool { return p.Blocked && !p.Busy }, false},
		"commits wait, not long":       {nil, 4, func(p, _ replication.Member) bool { return p.Blocked }, true},
		"commits wait, and others end": {nil, 30, func(p, _ replication.Member) bool { return p.Blocked || !p.Busy }, true},
		"commits wait, and ended":      {func(p, _ *mysqlmember.State) error { p.Waiting = 0; return nil }, 9, func(p, _ replication.Member) bool { return p.Blocked }, true},
		"the agent: commits wait": {func(p, _ *mysqlmember.State) error { p.Commits, p.Stalled = "Wait", 5000; return nil }, 0, func(p, _ replication.Member) bool {
			return p.Blocked && p.Waiting == 1 && !p.Busy
		}, false},
		"the agent: commits wait, not long": {func(p, _ *mysqlmember.State) error { p.Commits, p.Stalled = "Wait", 4999; return nil }, 30, func(p, _ replication.Member) bool { return p.Blocked }, true},
		"the agent: it is busy": {func(p, _ *mysqlmember.State) error { p.Commits, p.Stalled = "Busy", 399; return nil }, 30, func(p, _ replication.Member) bool {
			return p.Busy && p.Waiting == 0 && !p.Blocked
		}, false},
		"the applier is far ahead": {nil, 0, func(_, r replication.Member) bool { return r.Executed.Contains(r.Received) }, true},
	} {
		p, r := primary, replica
		var err error
		if c.change != nil {
			err = c.change(&p, &r)
		}
		o, now := &Observer{MaxLag: 10}, time.Unix(0, 0)
		var seen replication.Observation
		for i := range c.seconds + 1 {
			if name == "commits wait, and others end" {
				p.Executed = uuid + strconv.Itoa(i+1)
			}
			seen = o.Observe(record, []Look{
				{Pod: Pod{}, Answer: mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeOwn, Server: "a", Orders: 2}, State: &p}},
				{Pod: Pod{Ordinal: 1}, Answer: mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeOwn, Server: "b"}, State: &r}, Err: err},
			}, now.Add(time.Duration(i)*time.Second))
		}
		if c.is(seen.Members[0], seen.Members[1]) == c.negative {
			t.Errorf("%s: %+v", name, seen.Members)
		}
	}
}

// When a member answers again, the observer forgets its earlier failed queries.
func TestObserverForgets(t *testing.T) {
	t.Parallel()
	o := &Observer{}
	see := func(second int, err error) replication.Member {
		return o.Observe(replication.Record{}, []Look{{Pod: Pod{Ordinal: 1}, Answer: mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeEmpty}}, Err: err}}, time.Unix(int64(second), 0)).Members[0]
	}
	gone := errors.New("gone")
	see(0, gone)
	see(1, gone)
	see(2, nil)
	see(3, gone)
	if m := see(4, gone); m.Silent {
		t.Errorf("%+v", m)
	}
	if m := see(5, gone); !m.Silent || m.Answers {
		t.Errorf("%+v", m)
	}
}

// If a member has not answered, the next query has a shorter limit. The limit for a silent member is the shortest, but every twenty seconds one
// query has the full limit.
func TestPatience(t *testing.T) {
	t.Parallel()
	o := &Observer{}
	for second, c := range []struct {
		err  error
		want time.Duration
	}{
		{errors.New("gone"), 2 * time.Second}, {errors.New("gone"), 750 * time.Millisecond}, {errors.New("gone"), 750 * time.Millisecond},
		3: {errors.New("gone"), silentTime}, {errors.New("gone"), silentTime}, {errors.New("gone"), silentTime},
		22: {errors.New("gone"), 2 * time.Second}, {nil, silentTime}, {errors.New("gone"), 2 * time.Second},
	} {
		if c.want == 0 {
			continue // no query in this second
		}
		now := time.Unix(int64(second), 0)
		assert.Equal(t, o.Patience(1, now), c.want, "after %d s", second)
		o.Observe(replication.Record{}, []Look{{Pod: Pod{Ordinal: 1}, Answer: mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeEmpty}}, Err: c.err}}, now)
	}
}

// An answer of an agent that cannot read its volume counts as a failed query. If an agent reports why its server does not run, the member
// counts as failing.
func TestObserverUnread(t *testing.T) {
	t.Parallel()
	o := &Observer{}
	record := replication.Record{Formed: true}
	see := func(second int64, a mysqlmember.Answer) replication.Member {
		return o.Observe(record, []Look{{Pod: Pod{Ordinal: 1}, Answer: a}}, time.Unix(second, 0)).Members[0]
	}
	running := &mysqlmember.State{Role: replication.RoleReplica, Connected: true}
	for second := range int64(11) {
		m := see(second, mysqlmember.Answer{Report: mysqlmember.Report{Problem: "read the volume"}, State: running})
		if !m.Answers || m.Silent != (second >= 2) || m.Bad != (second >= 10) || m.Failing {
			t.Errorf("after %d seconds: %+v", second, m)
		}
	}
	for _, c := range []struct {
		answer  mysqlmember.Answer
		failing bool
	}{
		{mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeOwn, Server: "b", Problem: "the server ended"}}, true},
		{mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeOwn, Server: "b"}}, false}, // the server is starting
		{mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeOwn, Server: "b", Problem: "the server ended"}, State: running}, false},
		{mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeOwn, Server: "b", Problem: "the server ended", Making: "join"}}, false},
		{mysqlmember.Answer{Report: mysqlmember.Report{Volume: replication.VolumeEmpty, Problem: "waiting for the operator's ticket"}}, false},
	} {
		if m := see(20, c.answer); m.Failing != c.failing {
			t.Errorf("%+v: %+v", c.answer, m)
		}
	}
}

// Several queries within milliseconds count as a single one.
func TestObserverCountsApart(t *testing.T) {
	t.Parallel()
	o := &Observer{}
	for i := range 40 {
		at := time.Unix(0, 0).Add(time.Duration(i) * 20 * time.Millisecond)
		m := o.Observe(replication.Record{}, []Look{{Err: errors.New("gone")}}, at).Members[0]
		if m.Silent {
			t.Fatalf("silent after %d queries", i+1)
		}
	}
	if m := o.Observe(replication.Record{}, []Look{{Err: errors.New("gone")}}, time.Unix(1, 0)).Members[0]; !m.Silent {
		t.Error("not silent after a second")
	}
}
