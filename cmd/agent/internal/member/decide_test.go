// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract/etcdmember"
)

const (
	pod     = "data/etcd-1"
	peerURL = "http://etcd-1.etcd-headless.data.svc:2380"
)

// running returns the answer of one running member, etcd-0 (ID a). It lists etcd-0 and a learner that was never started (ID b).
// Each change edits the learner.
func running(change ...func(*Listed)) Peers {
	learner := Listed{ID: "b", PeerURLs: []string{peerURL}, Learner: true}
	for _, f := range change {
		f(&learner)
	}
	return Peers{Answers: []Answer{{From: "etcd-0", Cluster: "c", Members: []Listed{
		{ID: "a", Name: "etcd-0", PeerURLs: []string{"http://etcd-0.etcd-headless.data.svc:2380"}}, learner,
	}}}}
}

func both(a, b Peers) Peers { return Peers{Answers: append(a.Answers, b.Answers...)} }

func TestDecide(t *testing.T) {
	t.Parallel()
	prepared := func(ticket string) *Mark { return &Mark{Format: 1, Pod: pod, Ticket: ticket, PodUID: "old"} }
	whole := &Mark{Format: 1, Pod: pod, Cluster: "c", Member: "a"}
	until := func(index uint64) Data {
		return Data{Exists: true, Identity: Identity{"c", "a"}, Last: Position{Term: 2, Index: index}}
	}
	had := func(index uint64) []etcdmember.Known {
		return []etcdmember.Known{{Cluster: "c", Member: "a", Position: Position{Term: 2, Index: index}}}
	}
	of := func(member string) Data { return Data{Exists: true, Identity: Identity{"c", member}} }
	for name, c := range map[string]struct {
		s      Situation
		ticket string
		volume Volume
		reason Reason // empty: the server starts
		start  Verb
		aside  bool
		says   string
	}{
		"new":                            {Situation{}, "", Empty, NeedsTicket, "", false, "empty"},
		"new, ticket withdrawn":          {Situation{}, "none", Empty, NeedsTicket, "", false, ""},
		"new, seed":                      {Situation{}, "seed", Empty, "", Seed, false, ""},
		"new, seed with a token":         {Situation{}, "seed:x", Empty, "", Seed, false, ""},
		"new, seed used":                 {Situation{Used: []string{"seed"}}, "seed", Empty, TicketUsed, "", false, ""},
		"seed used in this pod":          {Situation{Mark: &Mark{Pod: pod, Ticket: "seed", PodUID: "uid"}}, "seed", Empty, TicketUsed, "", false, ""},
		"seed used in an earlier pod":    {Situation{Mark: prepared("seed")}, "seed", Empty, "", Seed, false, ""},
		"new, force":                     {Situation{}, "force:1", Empty, TicketRefused, "", false, "requires a volume with data"},
		"new, join":                      {Situation{Peers: running()}, "join:b", Empty, "", Join, false, ""},
		"join, no member answers":        {Situation{}, "join:b", Empty, NoPeers, "", false, "0 answered"},
		"join, no member lists the id":   {Situation{Peers: running()}, "join:f", Empty, NoPeers, "", false, "1 answered"},
		"join a voter":                   {Situation{Peers: running(func(m *Listed) { m.Learner = false })}, "join:b", Empty, TicketRefused, "", false, "not a learner"},
		"join a member that was started": {Situation{Peers: running(func(m *Listed) { m.Name = "etcd-1" })}, "join:b", Empty, TicketRefused, "", false, "started before"},
		"join at another address":        {Situation{Peers: running(func(m *Listed) { m.PeerURLs = []string{"http://other:2380"} })}, "join:b", Empty, TicketRefused, "", false, "address"},
		"join, a voter in one answer":    {Situation{Peers: both(running(), running(func(m *Listed) { m.Learner = false }))}, "join:b", Empty, TicketRefused, "", false, "not a learner"},
		"join, two clusters": {Situation{Peers: both(running(), Peers{Answers: []Answer{{Cluster: "d"}}})}, "join:b", Empty, TicketRefused, "", false,
			"two clusters"},
		"join, first start broke off":  {Situation{Mark: prepared("join:f"), Data: Data{Leftovers: true}, Peers: running()}, "join:b", Empty, "", Join, true, ""},
		"join used":                    {Situation{Used: []string{"join:b"}, Peers: running()}, "join:b", Empty, TicketUsed, "", false, ""},
		"data":                         {Situation{Mark: whole, Data: of("a")}, "", Own, "", "", false, ""},
		"data and a used ticket":       {Situation{Mark: whole, Data: of("a"), Used: []string{"seed"}}, "seed", Own, "", "", false, ""},
		"data and a ticket to seed":    {Situation{Mark: whole, Data: of("a")}, "seed", Own, "", "", false, ""},
		"data of a seed":               {Situation{Mark: prepared("seed"), Data: of("f")}, "", Own, "", "", false, ""},
		"data of a join":               {Situation{Mark: prepared("join:b"), Data: of("b")}, "", Own, "", "", false, ""},
		"data of an unexpected member": {Situation{Mark: prepared("join:b"), Data: of("f")}, "", Foreign, DataForeign, "", false, "prepared for the ticket join:b"},
		"data with other addresses": {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "a", Scheme: "https"}, Data: of("a")}, "", Own, TLSChanged, "", false,
			"restore spec.tls.mode"},
		"data without a mark":       {Situation{Data: of("a")}, "", Foreign, DataForeign, "", false, "without a mark"},
		"data without a mark, seed": {Situation{Data: of("a")}, "seed", Foreign, DataForeign, "", false, ""},
		"leftovers without a mark":  {Situation{Data: Data{Leftovers: true}}, "seed", Foreign, DataForeign, "", false, ""},
		"another pod's":             {Situation{Mark: &Mark{Pod: "data/etcd-2", Cluster: "c", Member: "a"}, Data: of("a")}, "", Foreign, DataForeign, "", false, "of pod data/etcd-2"},
		"another member's":          {Situation{Mark: whole, Data: of("f")}, "", Foreign, DataForeign, "", false, "its mark says member a"},
		"another cluster's":         {Situation{Mark: whole, Data: Data{Exists: true, Identity: Identity{"x", "a"}}}, "", Foreign, DataForeign, "", false, ""},
		"the mark is unreadable":    {Situation{MarkProblem: "bad", Data: of("a")}, "", Foreign, DataForeign, "", false, "bad"},
		"the data is unreadable":    {Situation{Mark: whole, Data: Data{Exists: true, Problem: "bad"}}, "", Own, "", "", false, ""},
		"the data is damaged":       {Situation{Mark: whole, Data: Data{Exists: true, Identity: Identity{"c", "a"}, Damage: "bad"}}, "", Own, DataDamaged, "", false, "damaged (bad)"},
		"damaged, and removed": {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "f"}, Data: Data{Exists: true, Identity: Identity{"c", "f"}, Damage: "bad"}, Peers: running()},
			"", Own, Removed, "", false, "was removed from the cluster"},
		"damaged, force":              {Situation{Mark: whole, Data: Data{Exists: true, Identity: Identity{"c", "a"}, Damage: "bad"}}, "force:1", Own, "", Force, false, ""},
		"unreadable, never completed": {Situation{Mark: prepared("seed"), Data: Data{Exists: true, Problem: "bad"}}, "", Foreign, DataForeign, "", false, "bad"},
		"the data is gone":            {Situation{Mark: whole}, "", Lost, DataLost, "", false, "member a"},
		"gone, seed":                  {Situation{Mark: whole}, "seed", Lost, TicketRefused, "", false, "never had data"},
		"gone, join as the same":      {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "b"}, Peers: running()}, "join:b", Lost, TicketRefused, "", false, "names the id of the lost member"},
		"gone, join as another":       {Situation{Mark: whole, Peers: running()}, "join:b", Lost, "", Join, false, ""},
		"gone, leftovers, join":       {Situation{Mark: whole, Data: Data{Leftovers: true}, Peers: running()}, "join:b", Lost, "", Join, true, ""},
		"removed":                     {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "f"}, Data: of("f"), Peers: running()}, "", Own, Removed, "", false, "was removed from the cluster"},
		"removed, join as another":    {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "f"}, Data: of("f"), Peers: running()}, "join:b", Own, "", Join, true, ""},
		"removed, the other is voter": {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "f"}, Data: of("f"), Peers: running(func(m *Listed) { m.Learner = false })},
			"join:b", Own, TicketRefused, "", false, ""},
		"a member, join as another":       {Situation{Mark: whole, Data: of("a"), Peers: running()}, "join:b", Own, TicketRefused, "", false, "another member"},
		"removal unconfirmed, join":       {Situation{Mark: whole, Data: of("a")}, "join:b", Own, TicketRefused, "", false, "no running member has confirmed"},
		"peers of another cluster":        {Situation{Mark: &Mark{Pod: pod, Cluster: "x", Member: "f"}, Data: Data{Exists: true, Identity: Identity{"x", "f"}}, Peers: running()}, "", Own, "", "", false, ""},
		"outdated":                        {Situation{Mark: whole, Data: until(5), Known: had(6)}, "", Own, DataOutdated, "", false, "ends at entry 5 of term 2, but the member had entry 6"},
		"outdated by its term":            {Situation{Mark: whole, Data: until(7), Known: []etcdmember.Known{{Cluster: "c", Member: "a", Position: Position{Term: 3, Index: 6}}}}, "", Own, DataOutdated, "", false, "term 3"},
		"up to date":                      {Situation{Mark: whole, Data: until(6), Known: had(6)}, "", Own, "", "", false, ""},
		"outdated by one of two notes":    {Situation{Mark: whole, Data: until(5), Known: append(had(4), had(6)...)}, "", Own, DataOutdated, "", false, ""},
		"outdated, force":                 {Situation{Mark: whole, Data: until(5), Known: had(6)}, "force:1", Own, "", Force, false, ""},
		"outdated, and removed":           {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "a"}, Data: until(5), Known: had(6), Peers: Peers{Answers: []Answer{{Cluster: "c"}}}}, "", Own, Removed, "", false, ""},
		"another member had more entries": {Situation{Mark: whole, Data: until(5), Known: []etcdmember.Known{{Cluster: "c", Member: "b", Position: Position{Term: 2, Index: 6}}}}, "", Own, "", "", false, ""},
		"outdated, but force accepted it": {Situation{Mark: &Mark{Format: 1, Pod: pod, Cluster: "c", Member: "a", Waived: Position{Term: 2, Index: 6}}, Data: until(5), Known: had(6)},
			"", Own, "", "", false, ""},
		"the record is unreadable": {Situation{Mark: whole, Data: until(5), KnownProblem: "bad"}, "", Own, DataOutdated, "", false, "bad"},
		"force":                    {Situation{Mark: whole, Data: of("a")}, "force:1", Own, "", Force, false, ""},
		"force again":              {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "a", Token: "1"}, Data: of("a")}, "force:1", Own, "", "", false, ""},
		"force with another token": {Situation{Mark: &Mark{Pod: pod, Cluster: "c", Member: "a", Token: "1"}, Data: of("a")}, "force:2", Own, "", Force, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ticket, err := ParseTicket(c.ticket)
			assert.NilError(t, err)
			c.s.Pod, c.s.PodUID, c.s.PeerURL, c.s.Ticket = pod, "uid", peerURL, ticket
			d := Decide(c.s)
			if d.Volume != c.volume || d.Reason != c.reason || d.Start != c.start || d.SetAside != c.aside || !strings.Contains(d.Message, c.says) {
				t.Errorf("got %+v", d)
			}
			if d.Start != "" && d.Start != Force && c.s.Data.Exists && !d.SetAside {
				t.Error("the server starts with empty data although data exists")
			}
		})
	}
}

func TestTickets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Ticket{
		"": {}, " \n": {}, "none": {}, "seed": {Text: "seed", Verb: Seed}, "seed:a": {"seed:a", Seed, "a"},
		"join:8e9e05c52164694d\n": {"join:8e9e05c52164694d", Join, "8e9e05c52164694d"}, "force:a:b": {"force:a:b", Force, "a:b"},
	} {
		if got, err := ParseTicket(text); err != nil || got != want {
			t.Errorf("%q is %+v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"join", "join:", "force:", "other:1", "Seed", "seed:a\nb"} {
		if got, err := ParseTicket(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// restoredIn places a backup's data on a volume, as a restore does.
func restoredIn(t *testing.T, dir, uid string) {
	t.Helper()
	folder := Restored(dir)
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "identity"), []byte("new/a"), 0o600),
		os.MkdirAll(filepath.Join(dir, "notes-"+uid), 0o755), NoteRestored(filepath.Join(dir, "notes-"+uid))); err != nil {
		t.Fatal(err)
	}
}

// The agent that begins a cluster with the data of a backup is killed between any two writes. The next pods begin the cluster with that
// data, and never with empty data.
func TestKilledAtEachPointOfABirth(t *testing.T) {
	t.Parallel()
	for point := 1; ; point++ {
		dir := t.TempDir()
		restoredIn(t, dir, "uid")
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), "MEMBER_TEST_CRASH="+strconv.Itoa(point), "MEMBER_TEST_DIR="+dir, "MEMBER_TEST_TICKET=seed")
		ended := child.Run() == nil
		if !ended {
			next := fake{}.Data(filepath.Join(dir, "data"))
			free, err := IsFree(dir, pod, next)
			if err != nil || free == next.Exists {
				t.Errorf("point %d: the volume is free: %t, its data is %+v (%v)", point, free, next, err)
			}
			var started string
			a := agentIn(dir, "next", "seed", &started)
			if free { // the next pod restores the backup
				assert.NilError(t, NoteRestored(a.Notes))
			}
			if err := a.Run(t.Context()); err != nil {
				t.Errorf("point %d: %v", point, err)
			}
		}
		if data := (fake{}).Data(filepath.Join(dir, "data")); data.Identity != (Identity{"new", "a"}) {
			t.Errorf("point %d: the cluster began with the data %+v", point, data)
		}
		if _, err := os.Stat(Restored(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("point %d: the volume has the restored data twice (%v)", point, err)
		}
		if ended {
			if point < 8 {
				t.Errorf("only %d points were tested", point-1)
			}
			t.Logf("killed at %d points", point-1)
			return
		}
	}
}

// A pod that must begin with the data of a backup does not start a server without that data.
func TestNoBirthWithoutItsData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var started string
	a := agentIn(dir, "uid", "seed", &started)
	assert.NilError(t, NoteRestored(a.Notes))
	if err := a.Run(t.Context()); err == nil || started != "" {
		t.Errorf("the agent started with %q: %v", started, err)
	}
	if mark, err := ReadMark(dir); mark != nil || err != nil {
		t.Errorf("the volume is marked: %+v (%v)", mark, err)
	}
}

// A restore refuses a volume that belongs to another pod, or that a member has used.
func TestFreeVolumes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark string
		data Data
		want bool
	}{
		"empty":                      {"", Data{}, true},
		"a start that broke off":     {`{"format":1,"pod":"data/etcd-1","ticket":"seed"}`, Data{}, true},
		"data":                       {"", Data{Exists: true}, false},
		"a part of data":             {"", Data{Leftovers: true}, false},
		"data that is gone":          {`{"format":1,"pod":"data/etcd-1","cluster":"c","member":"a"}`, Data{}, false},
		"a volume of another pod":    {`{"format":1,"pod":"data/etcd-2","ticket":"join:b"}`, Data{}, false},
		"a mark that cannot be read": {`{`, Data{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.mark != "" {
				assert.NilError(t, os.WriteFile(filepath.Join(dir, MarkFile), []byte(c.mark), 0o600))
			}
			if free, _ := IsFree(dir, pod, c.data); free != c.want {
				t.Errorf("it is free: %t", free)
			}
		})
	}
}
