// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/internal/database/steps"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

// look queries a pod again. Both results are nil if neither etcd nor the agent answers, or if the pod has no address.
func (t *executor) look(ctx context.Context, place membership.Place) (*membership.Report, *membership.Answer) {
	if place.IP == "" {
		return nil, nil
	}
	within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	if answer, _ := t.servers.ask(within, t.Access, place.IP); answer != nil {
		return nil, answer
	}
	again, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	ordinal, err := strconv.Atoi(place.Pod[strings.LastIndexByte(place.Pod, '-')+1:])
	if err != nil {
		return nil, nil
	}
	return t.servers.state(again, place.IP, StatePort, urlOf(ordinal, t.PeerURLs)), nil
}

// runsSilently reports whether etcd runs in a pod on data but answers no client: it has found no quorum since its
// start.
func (t *executor) runsSilently(ctx context.Context, place membership.Place) bool {
	within, cancel := context.WithTimeout(ctx, t.servers.options.ReadTimeout)
	defer cancel()
	ordinal, err := strconv.Atoi(place.Pod[strings.LastIndexByte(place.Pod, '-')+1:])
	return err == nil && place.IP != "" && t.servers.state(within, place.IP, WatchPort, urlOf(ordinal, t.PeerURLs)) != nil
}

// isExpected reports whether a member of the cluster runs in a pod, or the pod's volume has the data of a member.
func (t *executor) isExpected(report *membership.Report, answer *membership.Answer) bool {
	id := membership.ID(0)
	switch {
	case answer != nil:
		id = answer.Member
	case report != nil && report.Volume != membership.VolumeEmpty:
		id = report.Member
	}
	return id != 0 && slices.ContainsFunc(t.Step.Expect, func(m membership.Member) bool { return m.ID == id })
}

// proveUseless proves that the evidence for the removal of a member still holds: the member's data cannot be used.
func (t *executor) proveUseless(ctx context.Context) error {
	if t.Step.Evidence == "" {
		return nil // the member is not wanted, or is a learner
	}
	name := t.Step.Pod.Pod
	pod, err := t.Kubernetes.Pod(ctx, name)
	if err != nil {
		return err
	}
	if err := pod.Is(name, t.Step.Pod.UID, t.Step.Pod.IP); err != nil {
		return err
	}
	if t.Step.Evidence == membership.EvidenceCorrupt {
		_, bad, err := t.compare(ctx)
		if err == nil && !slices.Contains(bad, t.Step.Member) {
			err = steps.Refuse("the comparison no longer shows that the keys of %s are wrong", name)
		}
		return err
	}
	report, answer := t.look(ctx, t.Step.Pod)
	switch {
	case answer != nil:
		return steps.Refuse("member %s now answers in pod %s", answer.Member, name)
	case t.Step.Evidence == membership.EvidenceCrashing:
		crashes, err := t.Kubernetes.Crashing(ctx, t.Step.Pod)
		if err == nil && !crashes {
			err = steps.Refuse("etcd in pod %s no longer keeps exiting", name)
		}
		return err
	case report == nil:
		return steps.Refuse("the agent in pod %s does not answer any more", name)
	}
	if t.Step.Evidence == membership.EvidenceLost && !t.isLost(report) || t.Step.Evidence == membership.EvidenceDamaged && report.Damage == "" {
		return steps.Refuse("the data in pod %s is not %s any more", name, t.Step.Evidence)
	}
	return nil
}

// isLost reports whether the agent's report proves that the member's data is lost: the volume is empty, or its data is
// outdated or belongs to a member that is not in the member list.
func (t *executor) isLost(report *membership.Report) bool {
	if report.Volume != membership.VolumeData {
		return report.Volume == membership.VolumeEmpty
	}
	own := report.Member == 0 || report.Member == t.Step.Member
	return report.Outdated != "" || !own && !t.isExpected(report, nil)
}

// proveSame proves that all voters have the same keys.
func (t *executor) proveSame(ctx context.Context) error {
	if err := t.proveList(ctx); err != nil {
		return err
	}
	good, _, err := t.compare(ctx)
	if err != nil {
		return err
	}
	for _, m := range t.Step.Expect {
		if !m.Learner && !slices.Contains(good, m.ID) {
			return steps.Refuse("the comparison does not show that member %s has the same keys as the other voters", m.ID)
		}
	}
	return nil
}

// proveStays proves that no needed data is lost if a pod is deleted. One of these must hold: the pod's claim is not being
// deleted, the volume is empty, or a quorum has removed the member that owns the data.
func (t *executor) proveStays(ctx context.Context, report *membership.Report, answer *membership.Answer) error {
	leaving, err := t.Kubernetes.Leaving(ctx, t.Step.Ordinal)
	if err != nil || !leaving {
		return err
	}
	if report != nil && report.Volume == membership.VolumeEmpty {
		return nil
	}
	if len(t.Step.Expect) == 0 { // otherwise deletePod has already proven the list
		return steps.Refuse("the claim of pod %s is being deleted, and its data would be lost", t.Step.Pod.Pod)
	}
	if t.isExpected(report, answer) {
		return steps.Refuse("the claim of pod %s is being deleted, and the data of a member would be lost", t.Step.Pod.Pod)
	}
	return nil
}

// proveAlone proves that the record of the recovery is unchanged, that no pod answers a read that needs a quorum, and
// that every other pod's state is known.
func (t *executor) proveAlone(ctx context.Context) error {
	record, err := t.Kubernetes.Recorded(ctx)
	if err != nil {
		return err
	}
	if record != t.Step.Was {
		return steps.Refuse("the record of the recovery has changed")
	}
	for _, place := range append(slices.Clone(t.Step.Silent), t.Step.Pod) {
		report, answer := t.look(ctx, place)
		switch {
		case answer != nil && answer.Linear:
			return steps.Refuse("pod %s answers for a quorum", place.Pod)
		case answer == nil && report == nil && place.Pod != t.Step.Pod.Pod && !t.runsSilently(ctx, place):
			return steps.Refuse("the content of pod %s is not known: neither etcd nor the agent answers", place.Pod)
		}
	}
	return nil
}

// scale lowers the replicas of the StatefulSet. A quorum must confirm a member list that has no member in the removed pods.
func (t *executor) scale(ctx context.Context) error {
	if err := t.proveList(ctx); err != nil {
		return err
	}
	if t.Step.Ordinal < 1 {
		return steps.Refuse("the step has no number of pods")
	}
	return t.effect(ctx, func(ctx context.Context) error { return t.Kubernetes.Scale(ctx, t.Step.Ordinal) })
}
