// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/server"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
)

// kubernetes is a Fleet as steps see Kubernetes.
type kubernetes struct {
	*Fleet
	was membership.Record // the record that was observed
}

var _ server.Kubernetes = kubernetes{}

func (k kubernetes) find(place membership.Place) (*Pod, error) {
	for _, pod := range k.pods {
		if pod.Name == place.Pod && pod.UID == place.UID {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("there is no pod %s with UID %s", place.Pod, place.UID)
}

// Rotate fails: the fleet has no certificates.
func (kubernetes) Rotate(context.Context, membership.AuthorityPhase) error {
	return errors.New("the fleet has no certificates")
}

// Pod returns a pod as it is now.
func (k kubernetes) Pod(_ context.Context, name string) (proof.Pod, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pod := range k.pods {
		if pod.Name == name {
			return proof.Pod{UID: pod.UID, IP: pod.IP, Terminating: pod.terminating}, nil
		}
	}
	return proof.Pod{}, nil
}

// NeverFormed reports what shows that there was a cluster.
func (k kubernetes) NeverFormed(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.record.Cluster != 0 {
		return errors.New("the record has a cluster")
	}
	for ordinal, c := range k.claims {
		if c.mark != (membership.Mark{}) {
			return fmt.Errorf("the claim of ordinal %d has a mark", ordinal)
		}
	}
	return nil
}

// Record keeps the record.
func (k kubernetes) Record(_ context.Context, record membership.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.record != k.was {
		return errors.New("the record is another one")
	}
	k.record = record
	return nil
}

// MarkClaim notes whose data a claim has.
func (k kubernetes) MarkClaim(_ context.Context, ordinal int, at membership.ClaimAt, mark membership.Mark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.claims[ordinal]
	if c == nil || c.at() != at {
		return fmt.Errorf("the claim of ordinal %d is another one", ordinal)
	}
	c.mark, c.marked = mark, time.Now()
	c.version++
	return nil
}

// Crashing reports whether the program of a pod ends again and again.
func (k kubernetes) Crashing(_ context.Context, place membership.Place) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, err := k.find(place)
	if err != nil {
		return false, err
	}
	return pod.observed(k.revision).Crashing, nil
}

// Leaving reports whether a claim is being deleted.
func (k kubernetes) Leaving(_ context.Context, ordinal int) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.claims[ordinal]
	return c != nil && c.terminating, nil
}

// Recorded returns the record.
func (k kubernetes) Recorded(context.Context) (membership.Record, error) {
	return k.Fleet.Record(), nil
}

// Scale lets the StatefulSet have fewer pods.
func (k kubernetes) Scale(_ context.Context, pods int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.replicas = min(k.replicas, pods)
	return nil
}

// Ticket annotates a pod.
func (k kubernetes) Ticket(_ context.Context, place membership.Place, ticket string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, err := k.find(place)
	if err != nil {
		return err
	}
	return pod.setTicket(ticket)
}

// DeletePod ends a pod as a kubelet does.
func (k kubernetes) DeletePod(_ context.Context, place membership.Place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, err := k.find(place)
	if err != nil || pod.terminating {
		return err
	}
	k.terminate(pod)
	return nil
}

// DeleteClaim marks a claim; it goes when no pod uses it.
func (k kubernetes) DeleteClaim(_ context.Context, ordinal int, at membership.ClaimAt) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.claims[ordinal]
	if c == nil || c.at() != at {
		return fmt.Errorf("the claim of ordinal %d is another one", ordinal)
	}
	c.terminating = true
	return nil
}

// Story returns the log lines of all pods that have a text.
func (f *Fleet) Story(text string) []string {
	var lines []string
	for ordinal := range membership.MaxReplicas {
		log := (&Pod{fleet: f, Name: PodName(ordinal)}).Log()
		for line := range strings.SplitSeq(log, "\n") {
			if strings.Contains(line, text) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
