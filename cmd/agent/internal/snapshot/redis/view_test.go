// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/contract"
)

func TestParseView(t *testing.T) {
	tests := []struct{ line, want string }{
		{"aa 10.0.0.1:6379@16379,a.svc myself,master - 0 0 3 connected 0-99 200 5000-16383", "aa 10.0.0.1:6379 epoch 3 of \"\" slots 0-99,200,5000-16383 open \"\""},
		{"aa :6379@16379 myself,master - 0 0 0 connected", `aa asked:6379 epoch 0 of "" slots  open ""`},
		{"aa fd00::1:6379@16379 myself,slave bb 0 1 7 connected", `aa [fd00::1]:6379 epoch 7 of "bb" slots  open ""`},
		{"aa 10.0.0.1:6379@16379,,shard-id=1 myself,master,nofailover - 0 0 1 connected 7 [8->-bb] [9-<-cc]", `aa 10.0.0.1:6379 epoch 1 of "" slots 7 open "[8->-bb]"`},
		{"aa 10.0.0.1:6379 myself,master,noaddr - 0 0 1 connected", `aa  epoch 1 of "" slots  open ""`},
		{"aa 10.0.0.1:6379@16379 master - 0 0 1 connected", "no line with the flag myself"},
		{"aa 10.0.0.1:6379@16379 myself,master - 0 0", "no node"},
		{"aa 10.0.0.1:6379@16379 myself,master - 0 0 x connected", "no number"},
		{"aa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 5-3", "no slots"},
		{"aa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 16384", "no slots"},
		{"aa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 1-x", "no slots"},
	}
	for _, test := range tests {
		v, err := parseView(test.line+"\n", "asked")
		got := fmt.Sprintf("%s %s epoch %d of %q slots %s open %q", v.own.id, v.own.address, v.own.epoch, v.own.master, v.own.slots, v.own.open)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != test.want || !strings.Contains(got, test.want) {
			t.Errorf("%s:\n got %s\nwant %s", test.line, got, test.want)
		}
	}
}

// cluster returns views of two masters a and b, a replica c of a, and a replica d of b.
func cluster(t *testing.T, change func(own, line string) string) []view {
	t.Helper()
	lines := []string{"a 10.0.0.1:1@2 master - 0 0 5 connected 8192-16383", "b 10.0.0.2:1@2 master - 0 0 6 connected 0-8191",
		"c 10.0.0.3:1@2 slave a 0 0 5 connected", "d 10.0.0.4:1@2 slave b 0 0 6 connected"}
	var views []view
	for _, own := range []string{"c", "a", "b", "d"} {
		var text strings.Builder
		for _, line := range lines {
			if line[:1] == own {
				words := strings.Fields(line)
				words[2] = "myself," + words[2]
				line = strings.Join(words, " ")
			}
			if change != nil {
				line = change(own, line)
			}
			text.WriteString(line + "\n")
		}
		if text.Len() == len(lines) {
			continue // this server is not reachable
		}
		v, err := parseView(text.String(), "")
		assert.NilError(t, err)
		views = append(views, v)
	}
	return views
}

func TestAgree(t *testing.T) {
	in := func(server, from, to string) func(string, string) string {
		return func(own, line string) string {
			if server == "" || own == server {
				return strings.Replace(line, from, to, 1)
			}
			return line
		}
	}
	gone := func(server string) func(string, string) string {
		return func(own, line string) string {
			if own == server {
				return ""
			}
			return line
		}
	}
	tests := []struct {
		name   string
		change func(own, line string) string
		want   string
	}{
		{"at rest", nil, "[b 0-8191 [d] a 8192-16383 [c]]"},
		{"a replica is gone", gone("d"), "[b 0-8191 [] a 8192-16383 [c]]"},
		{"a replica of another master", in("d", "myself,slave b", "myself,slave a"), "[b 0-8191 [] a 8192-16383 [c d]]"},
		{"a master is gone", gone("b"), "master 10.0.0.2:1 of slots 0-8191 does not answer"},
		{"a slot without an owner", in("", "0-8191", "0-8190"), "slot 8191 has no owner"},
		{"the last slot has no owner", in("", "16383", "16382"), "slot 16383 has no owner"},
		{"two owners", in("", "0-8191", "0-8192"), "slot 8192 has two owners"},
		{"a replica's view lacks a slot", in("d", "8192-16383", "8193-16383"), "10.0.0.3:1 and 10.0.0.4:1 do not agree on the slots of node a"},
		{"a replica's view has an old owner", in("d", "b 10.0.0.2:1@2 master - 0 0 6 connected 0-8191", "b 10.0.0.2:1@2 slave a 0 0 6 connected"), "do not agree on the slots of node b"},
		{"another epoch", in("b", "0 0 6", "0 0 7"), "do not agree on the slots of node b"},
		{"equal epochs", in("", "0 0 6", "0 0 5"), "2 masters have 1 different config epochs"},
		{"a slot is migrating", in("a", "8192-16383", "8192-16383 [9000->-b]"), "the move of slot 9000 has not ended: server 10.0.0.1:1 has the mark [9000->-b]"},
		{"a slot is being imported", in("b", "0-8191", "0-8191 [9000-<-a]"), "the move of slot 9000 has not ended: server 10.0.0.2:1 has the mark [9000-<-a]"},
	}
	for _, test := range tests {
		shards, err := agree(cluster(t, test.change))
		var words []string
		for _, s := range shards {
			var replicas []string
			for _, r := range s.replicas {
				replicas = append(replicas, r.id)
			}
			words = append(words, fmt.Sprint(s.master.id, " ", s.master.slots, " ", replicas))
		}
		got := fmt.Sprint(words)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != test.want || !strings.Contains(got, test.want) {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}

// If no server listens, the error names the address.
func TestUnreachable(t *testing.T) {
	s := Cluster{Server: "127.0.0.1:1"}.servers()
	defer s.Close()
	s.patience = 0
	_, err := s.atRest(t.Context())
	if contract.ReasonOf(err) != contract.ReasonServerUnreachable || !strings.Contains(err.Error(), "127.0.0.1:1") || errors.Is(err, errChanged) {
		t.Fatal(err)
	}
}
