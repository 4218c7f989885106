// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
	"d3os.com/d3os-operator/internal/workers"
)

// healthKey is asked for to learn whether a quorum answers. It need not exist.
const healthKey = "health"

// What a pod may answer at most.
const (
	longestState = 64 << 10
	longestText  = 500
)

// Read asks all pods at once what they are, and fills in Report, Answer and Problem. peerURLs are the addresses that
// members should have, by ordinal. What does not answer in time is left out, with the reason in Problem.
func (s *Servers) Read(ctx context.Context, access Access, pods []membership.Pod, peerURLs []string) {
	within, cancel := context.WithTimeout(ctx, s.options.ReadTimeout)
	defer cancel()
	var all workers.Group
	for i := range pods {
		pod := &pods[i]
		if pod.IP == "" || pod.Terminating && !pod.Running {
			continue
		}
		all.Go(func() { s.readPod(within, access, pod, peerURLs) })
	}
	all.Wait()
	s.hashPods(ctx, access, pods)
}

func (s *Servers) readPod(ctx context.Context, access Access, pod *membership.Pod, peerURLs []string) {
	var report *membership.Report
	var both workers.Group
	both.Go(func() {
		report = s.state(ctx, pod.IP, urlOf(pod.Ordinal, peerURLs))
	})
	answer, err := s.ask(ctx, access, pod.IP)
	if answer == nil {
		both.Wait()
		pod.Report = report
		if report == nil && pod.Problem == "" {
			pod.Problem, pod.Silent, pod.Locked = s.describe(err), isLate(err), needsAccount(err)
		}
		return
	}
	answer.Trust = s.trust(ctx, access, pod.IP)
	pod.Answer = answer
}

func urlOf(ordinal int, peerURLs []string) string {
	if ordinal < 0 || ordinal >= len(peerURLs) {
		return ""
	}
	return peerURLs[ordinal]
}

// describe says in a few words why a member does not answer.
func (s *Servers) describe(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused"):
		return membership.NotListening
	case isLate(err):
		return "no answer within " + s.options.ReadTimeout.String()
	}
	if needsAccount(err) {
		return "etcd's own authentication is on, and the operator has no account: run etcdctl auth disable"
	}
	text := err.Error()
	if len(text) > longestText {
		text = text[:longestText]
	}
	return text
}

// needsAccount reports whether an error is that etcd's own authentication is on, which members have without a certificate that names
// an account.
func needsAccount(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrUserEmpty) || errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied)
}

// isLate reports whether an error is that the time was over.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "DeadlineExceeded") || strings.Contains(err.Error(), "deadline exceeded")
}

// state returns what the agent in a pod says, or nil. Where another pod has the address by now, it is nil.
func (s *Servers) state(ctx context.Context, ip, peerURL string) *membership.Report {
	url := "http://" + net.JoinHostPort(ip, strconv.Itoa(StatePort)) + "/state"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil
	}
	response, err := s.http.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var said struct {
		membership.Report
		PeerURL string `json:"peerURL"`
	}
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, longestState)).Decode(&said) != nil {
		return nil
	}
	if said.PeerURL != peerURL || !slices.Contains([]membership.Volume{membership.VolumeEmpty, membership.VolumeData, membership.VolumeForeign}, said.Volume) {
		return nil
	}
	for _, text := range []*string{&said.Waiting, &said.Damage, &said.Outdated, &said.Owner, &said.Token} {
		if len(*text) > longestText {
			*text = (*text)[:longestText]
		}
	}
	return &said.Report
}

// ask asks the etcd in a pod what it is and sees. What needs a quorum comes last, because without one it takes all the time.
func (s *Servers) ask(ctx context.Context, access Access, ip string) (*membership.Answer, error) {
	c, ctx, err := s.dial(ctx, access, ip)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	status, err := c.Status(ctx, c.Endpoints()[0])
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	a := &membership.Answer{
		Cluster: membership.ID(status.Header.ClusterId), Member: membership.ID(status.Header.MemberId), Leader: membership.ID(status.Leader),
		Learner: status.IsLearner, Version: status.Version,
		Term: status.RaftTerm, Index: status.RaftIndex, Applied: status.RaftAppliedIndex,
		Revision: status.Header.Revision, Size: status.DbSize, Used: status.DbSizeInUse, Quota: status.DbSizeQuota,
		Alarms: alarmsIn(status.Errors),
	}
	if a.Learner {
		return a, nil // it answers nothing else
	}
	local, err := c.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return a, nil
	}
	a.Members = membersOf(local)
	if slices.ContainsFunc(a.Alarms, func(alarm membership.Alarm) bool { return alarm.Kind == membership.AlarmNoSpace }) {
		a.Compacted = compacted(ctx, c, a.Revision)
	}
	if !linear(ctx, c) {
		return a, nil
	}
	// What this member has applied includes what a quorum had agreed on when it was asked: so does its list, read after that.
	if local, err = c.MemberList(ctx, clientv3.WithSerializable()); err == nil {
		a.Members, a.Linear = membersOf(local), true
	}
	return a, nil
}

// linear reports whether a member answers a read that a quorum has to agree to.
func linear(ctx context.Context, c *clientv3.Client) bool {
	_, err := c.Get(ctx, healthKey, clientv3.WithCountOnly())
	return err == nil || errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// compacted reports whether the history before a revision is gone.
func compacted(ctx context.Context, c *clientv3.Client, revision int64) bool {
	if revision <= 1 {
		return true
	}
	_, err := c.Get(ctx, healthKey, clientv3.WithRev(revision-1), clientv3.WithCountOnly(), clientv3.WithSerializable())
	return errors.Is(err, rpctypes.ErrCompacted)
}

func membersOf(list *clientv3.MemberListResponse) []membership.Member {
	var members []membership.Member
	for _, m := range list.Members {
		members = append(members, membership.Member{ID: membership.ID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.IsLearner})
	}
	slices.SortFunc(members, func(a, b membership.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return members
}

// alarmText is how a status tells of an alarm. To ask for alarms as such would write to etcd's log each time. An alarm for the
// whole cluster has member 0, which is not printed.
var alarmText = regexp.MustCompile(`^\s*(?:memberID:(\d+)\s+)?alarm:(\w+)`)

func alarmsIn(texts []string) []membership.Alarm {
	var alarms []membership.Alarm
	for _, text := range texts {
		found := alarmText.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		id := uint64(0)
		var err error
		if found[1] != "" {
			id, err = strconv.ParseUint(found[1], 10, 64)
		}
		if err == nil {
			alarms = append(alarms, membership.Alarm{Member: membership.ID(id), Kind: found[2]})
		}
	}
	return alarms
}

// same reports whether two lists of members are equal.
func same(a, b []membership.Member) error {
	if len(a) == len(b) && slices.EqualFunc(a, b, func(x, y membership.Member) bool {
		return x.ID == y.ID && x.Learner == y.Learner && x.Name == y.Name && slices.Equal(x.PeerURLs, y.PeerURLs)
	}) {
		return nil
	}
	return fmt.Errorf("%w: the list of members has changed", proof.ErrRefused)
}
