// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history shows from the API server's audit log, and from the logs of all members that ever ran, whether pods and members
// of an etcd cluster went only while those that stayed were a quorum.
package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Log is what etcd wrote in one pod, in all of its processes.
type Log struct{ Pod, Text string }

// History is what the API server's audit log and the members' own logs say of a cluster.
type History struct {
	Deletions []Deletion
	served    []service
	votes     map[uint64]span // by member
}

// Deletion is a pod that was asked to go.
type Deletion struct {
	Pod, By string
	At      time.Time
}

// span is a time; its end is zero while it lasts.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool {
	return !s.from.IsZero() && !t.Before(s.from) && (s.to.IsZero() || t.Before(s.to))
}

// service is a time in which a member, in a pod, was there for clients.
type service struct {
	span

	member uint64
	pod    string
}

// configuration is how raft tells who has a vote.
var configuration = regexp.MustCompile(`switched to configuration voters=\(([0-9 ]*)\)`)

// Members is how many members had a vote at any time.
func (h *History) Members() int { return len(h.votes) }

// Add takes in what etcd wrote in one pod. What a process reads from its own log when it starts is told
// again, so the first time counts.
func (h *History) Add(log Log) error {
	if h.votes == nil {
		h.votes = map[uint64]span{}
	}
	var now *service
	var last time.Time
	for line := range strings.Lines(log.Text) {
		if strings.HasPrefix(line, "starting: ") { // by the agent's word
			if now != nil && now.to.IsZero() { // it was killed
				now.to = last
			}
			now = nil
		}
		var entry struct {
			At      string `json:"ts"`
			Message string `json:"msg"`
			Local   string `json:"local-member-id"`
			Removed string `json:"removed-remote-peer-id"`
		}
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &entry) != nil || entry.At == "" {
			continue
		}
		at, err := time.Parse("2006-01-02T15:04:05.999999999Z0700", entry.At)
		if err != nil {
			return fmt.Errorf("read a time in the log of pod %s: %w", log.Pod, err)
		}
		last = at
		if now == nil {
			h.served = append(h.served, service{pod: log.Pod})
			now = &h.served[len(h.served)-1]
		}
		if err := h.note(now, at, entry.Message, entry.Local, entry.Removed); err != nil {
			return fmt.Errorf("read the log of pod %s: %w", log.Pod, err)
		}
	}
	return nil
}

// note takes in one line of a process's log.
func (h *History) note(now *service, at time.Time, message, local, removed string) error {
	var err error
	if local != "" && now.member == 0 {
		if now.member, err = strconv.ParseUint(local, 16, 64); err != nil {
			return err
		}
	}
	if found := configuration.FindStringSubmatch(message); found != nil {
		for _, text := range strings.Fields(found[1]) {
			id, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return err
			}
			if vote := h.votes[id]; vote.from.IsZero() || at.Before(vote.from) {
				h.votes[id] = span{at, vote.to}
			}
		}
	}
	switch {
	case message == "removed member" && removed != "":
		id, err := strconv.ParseUint(removed, 16, 64)
		if err != nil {
			return err
		}
		if vote := h.votes[id]; vote.to.IsZero() || at.Before(vote.to) {
			h.votes[id] = span{vote.from, at}
		}
	case message == "ready to serve client requests" && now.from.IsZero():
		now.from = at
	case strings.HasPrefix(message, "received signal") && now.to.IsZero():
		now.to = at
	}
	return nil
}

// Audited takes in the deletions and evictions of a namespace's pods. A node that says that a pod has ended is none.
func (h *History) Audited(path, namespace string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Agent    string    `json:"userAgent"`
			Received time.Time `json:"requestReceivedTimestamp"`
			Object   struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"objectRef"`
			Request struct {
				Grace *int `json:"gracePeriodSeconds"`
			} `json:"requestObject"`
			Response struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if event.Object.Namespace != namespace || event.Response.Code >= 300 || event.Request.Grace != nil && *event.Request.Grace == 0 {
			continue
		}
		by, _, _ := strings.Cut(event.Agent, "/")
		h.Deletions = append(h.Deletions, Deletion{event.Object.Name, by, event.Received})
	}
	return lines.Err()
}

// left returns how many members have a vote at a time, and how many of those serve but for the pod that goes. Taken reports
// whether that one did.
func (h *History) left(at time.Time, goes string) (voters, serve int, taken bool) {
	for _, vote := range h.votes {
		if vote.has(at) {
			voters++
		}
	}
	for _, s := range h.served {
		if !s.has(at) || !h.votes[s.member].has(at) || slices.ContainsFunc(h.Deletions, func(d Deletion) bool {
			return d.Pod == s.pod && s.has(d.At) && d.At.Before(at)
		}) {
			continue
		}
		if s.pod == goes {
			taken = true
		} else {
			serve++
		}
	}
	return voters, serve, taken
}

// Harm returns each moment at which a pod or a member was taken away that those that stayed were no quorum without, and how many
// moments there were. A cluster of one or two members has none to spare: their pods cannot be replaced without a pause.
func (h *History) Harm() (harm []string, moments int) {
	for _, d := range h.Deletions {
		voters, serve, taken := h.left(d.At, d.Pod)
		if !taken {
			continue
		}
		moments++
		if voters > 2 && serve < voters/2+1 {
			harm = append(harm, fmt.Sprintf("%s: %s deleted pod %s: of %d voters %d were left that served", d.At.Format("15:04:05.000"), d.By, d.Pod, voters, serve))
		}
	}
	for member, vote := range h.votes {
		if vote.to.IsZero() {
			continue
		}
		moments++
		if voters, serve, _ := h.left(vote.to, ""); serve < voters/2+1 {
			harm = append(harm, fmt.Sprintf("%s: member %x was removed: of %d voters %d were left that served", vote.to.Format("15:04:05.000"), member, voters, serve))
		}
	}
	return harm, moments
}
