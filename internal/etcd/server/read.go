// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
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
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/etcdmember"
	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/workers"
)

// healthKey is the key whose read tests for a quorum. The key need not exist.
const healthKey = "health"

// watcherPatience is the time for which Read waits for the report of the agent's watcher after etcd has answered.
const watcherPatience = time.Second

// Limits of a pod's answer, in bytes.
const (
	longestState = 64 << 10
	longestText  = 500
)

// Read queries all pods in parallel and sets Report, Answer and Problem. peerURLs are the members' expected peer URLs, by ordinal. If a pod
// does not answer in time, Problem states the reason.
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
	patient, stop := context.WithCancel(ctx)
	defer stop()
	both.Go(func() {
		report = s.state(patient, pod.IP, StatePort, urlOf(pod.Ordinal, peerURLs))
	})
	var watched *membership.Report
	both.Go(func() {
		watched = s.state(patient, pod.IP, WatchPort, urlOf(pod.Ordinal, peerURLs))
	})
	answer, err := s.ask(ctx, access, pod.IP)
	if answer == nil {
		both.Wait()
		pod.Report = report
		if report != nil {
			pod.Kept = report.Kept
			return
		}
		if isLate(err) {
			err = cmp.Or(s.untrusted(ctx, access, pod.IP), err)
		}
		if isLate(err) { // also if Problem already describes the last termination of the container
			pod.Watched = watched
		}
		if pod.Problem == "" {
			pod.Problem, pod.Silent, pod.Locked = s.describe(access, err), isLate(err), needsAccount(err) || isUntrusted(err)
		}
		return
	}
	answer.Trust = s.trust(ctx, access, pod.IP)
	pod.Answer = answer
	// While etcd answers, the agent's watcher answers immediately, unless a NetworkPolicy blocks the operator.
	late := time.AfterFunc(watcherPatience, stop)
	defer late.Stop()
	if both.Wait(); watched != nil {
		pod.Kept = watched.Kept
	}
}

func urlOf(ordinal int, peerURLs []string) string {
	if ordinal < 0 || ordinal >= len(peerURLs) {
		return ""
	}
	return peerURLs[ordinal]
}

// describe returns a short reason why a member does not answer.
func (s *Servers) describe(access Access, err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused"):
		return membership.NotListening
	case isLate(err):
		return "no answer within " + s.options.ReadTimeout.String()
	}
	if needsAccount(err) {
		return "etcd's own authentication is on, but the operator has no account: run etcdctl auth disable"
	}
	text := err.Error()
	if found := tlsError.FindStringSubmatch(text); found != nil {
		if text = "Secret " + access.Secret + ": ca.crt does not verify etcd's certificate: " + found[2]; found[1] != "" {
			text = "Secret " + access.Secret + ": etcd refuses the certificate: " + found[2]
		}
	}
	text, _, _ = strings.Cut(text, ": current time ") // without the time, the text stays the same while the cause lasts
	return bounded(text)
}

// tlsError matches the error of a TLS handshake. Its first group matches if the server has ended the handshake.
var tlsError = regexp.MustCompile(`(remote error: )?tls: (?:failed to verify certificate: )?([^"]*)`)

// isUntrusted reports whether the operator or a member refuses the certificate of the other. It returns false for an
// expired certificate, because then clients cannot use the member either.
func isUntrusted(err error) bool {
	return tlsError.MatchString(err.Error()) && !strings.Contains(err.Error(), "certificate has expired")
}

// needsAccount reports whether an error comes from etcd's own authentication, which refuses clients without a user.
func needsAccount(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrUserEmpty) || errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied)
}

// isLate reports whether an error is a timeout.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "DeadlineExceeded") || strings.Contains(err.Error(), "deadline exceeded")
}

// state returns the report of the agent in a pod, or nil. It returns nil if the address now belongs to another pod.
func (s *Servers) state(ctx context.Context, ip string, port int, peerURL string) *membership.Report {
	url := "http://" + net.JoinHostPort(ip, strconv.Itoa(port)) + contract.PathState
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil
	}
	response, err := s.http.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var said etcdmember.Report
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, longestState)).Decode(&said) != nil {
		return nil
	}
	if said.PeerURL != peerURL || !slices.Contains([]membership.Volume{membership.VolumeEmpty, membership.VolumeData, membership.VolumeForeign}, said.Volume) {
		return nil
	}
	var cluster, member membership.ID
	if cluster.UnmarshalText([]byte(said.Cluster)) != nil || member.UnmarshalText([]byte(said.Member)) != nil {
		return nil
	}
	return &membership.Report{
		Volume: said.Volume, Cluster: cluster, Member: member, Used: said.Used, Token: bounded(said.Token), Damage: bounded(said.Damage),
		Outdated: bounded(said.Outdated), Position: said.Position, Owner: bounded(said.Owner), Waiting: bounded(said.Waiting), Kept: max(0, said.Kept),
	}
}

func bounded(text string) string { return text[:min(len(text), longestText)] }

// ask queries the etcd in a pod. Requests that need a quorum come last: without a quorum, they use up the time limit.
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
		return a, nil // a learner refuses all other requests
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
	// The read was linearizable. So this member has applied everything on which a quorum had agreed before, and the
	// list that is read now is current.
	if local, err = c.MemberList(ctx, clientv3.WithSerializable()); err == nil {
		a.Members, a.Linear = membersOf(local), true
	}
	return a, nil
}

// linear reports whether a member answers a read that needs a quorum's confirmation.
func linear(ctx context.Context, c *clientv3.Client) bool {
	_, err := c.Get(ctx, healthKey, clientv3.WithCountOnly())
	return err == nil || errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// compacted reports whether the history before a revision was dropped.
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

// alarmText matches an alarm in a status. (A request for alarms would write to etcd's log each time.) An alarm of the whole cluster has
// member 0, which is not printed.
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

// same returns an error if two member lists differ.
func same(a, b []membership.Member) error {
	if len(a) == len(b) && slices.EqualFunc(a, b, func(x, y membership.Member) bool {
		return x.ID == y.ID && x.Learner == y.Learner && x.Name == y.Name && slices.Equal(x.PeerURLs, y.PeerURLs)
	}) {
		return nil
	}
	return fmt.Errorf("%w: the list of members has changed", steps.ErrRefused)
}
