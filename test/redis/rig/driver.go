// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/test/harness/process"
)

const clusterName = "rig/rec"

// Driver is an operator for one cluster: it observes, decides and takes one step, again and again.
type Driver struct {
	Fleet    *Fleet
	Wanted   topology.Wanted
	Pipeline int
	// Tap sees what steps send; a new life of the driver gets a new one.
	Tap     func() server.Tap
	servers *server.Servers
	tap     server.Tap // of this life

	Lives, Passes, Steps int
	Story                []string // of the steps that were taken
	last                 topology.Decision
}

// NewDriver returns the driver of a fleet.
func NewDriver(f *Fleet) *Driver {
	d := &Driver{Fleet: f, Wanted: topology.Wanted{Generation: 1, Shards: f.options.Shards, NodeTimeout: f.options.NodeTimeout}}
	f.t.Cleanup(func() {
		if d.servers != nil {
			d.servers.Close()
		}
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
	if d.servers != nil {
		d.servers.Close()
	}
	d.tap = nil
	if d.Tap != nil {
		if tap := d.Tap(); tap != nil {
			d.tap = tap
		}
	}
	d.servers = server.New(server.Options{Slice: 2 * time.Second, Tap: d.tap})
	d.Lives++
}

// Access is how the fleet's servers are reached.
func (f *Fleet) Access() server.Access { return server.Access{Password: f.password} }

// Observe reads all nodes.
func (d *Driver) Observe(ctx context.Context) []topology.Node {
	if d.servers == nil {
		d.Restart()
	}
	nodes := d.Fleet.Observed()
	var settings []string
	for name := range d.Wanted.Settings {
		settings = append(settings, name)
	}
	d.servers.Read(ctx, clusterName, d.Fleet.Access(), nodes, settings)
	return nodes
}

// Pass is one pass of the operator. It returns what was decided. A step that fails is no error: the next pass
// looks again, as the operator does.
func (d *Driver) Pass(ctx context.Context) topology.Decision {
	d.Fleet.Scale(topology.Planned(d.Wanted.Shards, d.Fleet.Record())) //nolint:contextcheck // pods start while the test runs
	for _, pod := range d.Fleet.Pods() {
		pod.again()
	}
	nodes := d.Observe(ctx)
	d.Passes++
	decision := topology.Decide(d.Wanted, d.Fleet.Record(), nodes)
	d.last = decision
	for _, n := range nodes {
		if decision.Model.Phase == topology.PhaseRunning && (!n.Running || !n.Reached || decision.Model.Served < topology.Slots) {
			d.Fleet.t.Errorf("the phase is Running with %d slots served, and %s is down (%s)", decision.Model.Served, n.Pod, n.Problem)
		}
	}
	if len(decision.Steps) == 0 {
		return decision
	}
	step := decision.Steps[0]
	err := d.Take(ctx, step)
	if step.Action != topology.ActionWait || err != nil {
		d.tell("%s %s: %s: %v", decision.Model.Verdict, step.Action, step.Message, err)
	}
	return decision
}

// Take takes one step. If it is broken off, the driver is another one afterwards.
func (d *Driver) Take(ctx context.Context, step topology.Step) error {
	if d.servers == nil {
		d.Restart()
	}
	within, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	d.Steps++
	err := d.servers.Take(within, server.Taking{
		Cluster: clusterName, Access: d.Fleet.Access(), Step: step, Pipeline: d.Pipeline, Kubernetes: kubernetes{d.Fleet, d.tap},
	})
	if errors.Is(err, server.ErrBrokenOff) {
		d.Restart()
	}
	return err
}

func (d *Driver) tell(format string, args ...any) {
	d.Story = append(d.Story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// Until drives until a condition holds after a pass.
func (d *Driver) Until(within time.Duration, what string, holds func(topology.Decision) error) time.Duration {
	d.Fleet.t.Helper()
	began := time.Now()
	err := process.Wait(d.Fleet.t.Context(), within, func() error { return holds(d.Pass(d.Fleet.t.Context())) })
	if err != nil {
		d.Fleet.t.Fatalf("%s: not within %s (%d passes, %d steps, %d lives): %v\nverdict %s: %s", what, within, d.Passes, d.Steps, d.Lives,
			err, d.last.Model.Verdict, d.last.Model.Reason)
	}
	return time.Since(began)
}

// Settle drives until nothing is left to be done and the strict check passes, and returns how long that took.
func (d *Driver) Settle(within time.Duration, what string) time.Duration {
	d.Fleet.t.Helper()
	return d.Until(within, what, func(decision topology.Decision) error {
		if !decision.Model.Settled {
			return fmt.Errorf("%s: %s", decision.Model.Verdict, decision.Model.Reason)
		}
		return d.Fleet.Check(d.Fleet.t.Context())
	})
}
