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
	"d3os.com/d3os-operator/test/harness/process"
)

// Driver is an operator for one cluster: it looks, decides and takes one step, again and again.
type Driver struct {
	Fleet *Fleet
	Want  membership.Want
	// Tap sees the effects of steps; a new life of the driver gets a new one.
	Tap     func() server.Tap
	servers *server.Servers

	Lives, Passes int
	Effects       map[membership.Action]int
	Story         []string // of the steps that were taken
	Clusters      map[membership.ID]bool
	last          membership.Decision
}

// NewDriver returns the driver of a fleet.
func NewDriver(f *Fleet, replicas int) *Driver {
	d := &Driver{
		Fleet: f, Effects: map[membership.Action]int{}, Clusters: map[membership.ID]bool{},
		Want: membership.Want{
			Replicas: replicas, Version: f.options.Version, Path: []string{V34, V35, V36}, PeerURLs: PeerURLs(), ReplaceAfter: 10 * time.Second,
			Maintenance: membership.Maintenance{Compact: true},
		},
	}
	f.t.Cleanup(func() {
		if f.t.Failed() {
			for _, line := range d.Story[max(0, len(d.Story)-60):] {
				f.t.Log(line)
			}
		}
	})
	return d
}

// Restart makes a new operator, which remembers nothing.
func (d *Driver) Restart() {
	var tap server.Tap
	if d.Tap != nil {
		tap = d.Tap()
	}
	d.servers = server.New(server.Options{Tap: tap, ReadTimeout: time.Second})
	d.Lives++
}

// ErrEnded says that a Tap ended the operator.
var ErrEnded = errors.New("the operator has ended")

var errWaiting = errors.New("there was no pass yet")

// Look reads everything.
func (d *Driver) Look(ctx context.Context) membership.View {
	if d.servers == nil {
		d.Restart()
	}
	view := d.Fleet.View()
	d.servers.Read(ctx, server.Access{}, view.Pods, d.Want.PeerURLs)
	pods := d.Fleet.Pods()
	for i := range view.Pods {
		seen := &view.Pods[i]
		for _, pod := range pods {
			if pod.UID == seen.UID && seen.Answer != nil && (seen.Answer.Linear || seen.Answer.Learner) {
				pod.seenReady()
				seen.Ready = true
			}
		}
		if seen.Answer != nil {
			d.Clusters[seen.Answer.Cluster] = true
		}
	}
	return view
}

// Pass is one pass of the operator. It returns what was decided. A step that fails is no error: the next pass looks again.
func (d *Driver) Pass(ctx context.Context) membership.Decision {
	replicas, version := d.Fleet.Planned(d.Want)
	d.Fleet.Sync(replicas, version)
	view := d.Look(ctx)
	d.Passes++
	d.last = membership.Decide(d.Want, view)
	if len(d.last.Steps) > 0 {
		step := d.last.Steps[0]
		err := d.Take(ctx, step)
		if step.Action != membership.ActionWait || err != nil || len(d.Story) == 0 || !strings.HasSuffix(d.Story[len(d.Story)-1], step.Message) {
			d.tell("%s %s: %v: %s", d.last.Model.Verdict, step.Action, err, step.Message)
		}
	}
	return d.last
}

// Take takes one step. When the Tap ends the operator, the driver is another one afterwards.
func (d *Driver) Take(ctx context.Context, step membership.Step) error {
	within, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err := d.servers.Take(within, server.Taking{Step: step, Kubernetes: kubernetes{d.Fleet, step.Was}, PeerURLs: d.Want.PeerURLs})
	if err == nil {
		d.Effects[step.Action]++
	}
	if errors.Is(err, ErrEnded) {
		d.Restart()
	}
	return err
}

func (d *Driver) tell(format string, args ...any) {
	d.Story = append(d.Story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// Until drives until a condition holds after a pass, and returns how long that took.
func (d *Driver) Until(within time.Duration, what string, holds func(membership.Decision) error) time.Duration {
	d.Fleet.t.Helper()
	began := time.Now()
	why := errWaiting
	next := began
	err := process.Wait(d.Fleet.t.Context(), within, func() error {
		if time.Now().Before(next) {
			return errWaiting
		}
		err := holds(d.Pass(d.Fleet.t.Context()))
		// What an event at the API server would trigger comes sooner here than by timer.
		next = time.Now().Add(min(d.last.LookAgain, 300*time.Millisecond))
		if err != nil {
			why = err
		}
		return err
	})
	if err != nil {
		d.Fleet.t.Fatalf("%s: not within %s (%d passes, %d lives): %v\n%s, %s: %s", what, within, d.Passes, d.Lives,
			why, d.last.Model.Verdict, d.last.Model.Phase, d.last.Model.Reason)
	}
	return time.Since(began)
}

// Settle drives until nothing is left to be done and the strict check passes, and returns how long that took.
func (d *Driver) Settle(within time.Duration, what string) time.Duration {
	d.Fleet.t.Helper()
	return d.Until(within, what, func(decision membership.Decision) error {
		if !decision.Model.Settled {
			return fmt.Errorf("%s: %s", decision.Model.Verdict, decision.Model.Reason)
		}
		return d.Check(d.Fleet.t.Context(), decision.Model)
	})
}

// Unsettle drives until something is not well, and fails when all stays well.
func (d *Driver) Unsettle(within time.Duration, what string) {
	d.Fleet.t.Helper()
	d.Until(within, "it is noticed that "+what, func(decision membership.Decision) error {
		if decision.Model.Settled {
			return errors.New("all is well")
		}
		return nil
	})
}

// Leader returns the pod that leads by the last pass.
func (d *Driver) Leader() *Pod {
	d.Fleet.t.Helper()
	for _, pod := range d.Fleet.Pods() {
		if pod.Name == d.last.Model.Leader {
			return pod
		}
	}
	d.Fleet.t.Fatalf("nobody leads: %s", d.last.Model.Reason)
	return nil
}

// Follower returns the last pod that does not lead by the last pass.
func (d *Driver) Follower() *Pod {
	d.Fleet.t.Helper()
	leader := d.Leader()
	pods := d.Fleet.Pods()
	for i := len(pods) - 1; i >= 0; i-- {
		if pods[i] != leader {
			return pods[i]
		}
	}
	d.Fleet.t.Fatal("there is no follower")
	return nil
}

// IDs are ids of members.
type IDs map[membership.ID]bool

// IDs returns those of the members by the last pass.
func (d *Driver) IDs() IDs {
	ids := IDs{}
	for _, m := range d.last.Model.Members {
		ids[m.ID] = true
	}
	return ids
}

// Missing returns how many of these ids are not among others.
func (ids IDs) Missing(others IDs) int {
	n := 0
	for id := range ids {
		if !others[id] {
			n++
		}
	}
	return n
}
