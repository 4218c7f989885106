// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage gives tests a namespace each, and operators for it.
package stage

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// Suite is what the tests of a package share.
type Suite struct {
	*cluster.Cluster

	API   client.WithWatch    // as the cluster's administrator
	Logs  harness.LogBuffer   // of all operators
	Lists []client.ObjectList // the kinds that a stage's journal follows
	// Patience is how long anything may take that has no promise of its own; the machine may be busy.
	Patience func() time.Duration
	// Parallel is how many tests run at a time, unless the command line says; 0 is eight, because most tests wait. Real
	// servers with clients at full speed leave probes no processor time: such suites run two.
	Parallel int
}

// Main starts the cluster, runs the tests and stops it.
func (s *Suite) Main(m *testing.M, options cluster.Options, prepare func(context.Context) error) int {
	harness.AtOnce(cmp.Or(s.Parallel, 8))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	log := zap.New(zap.WriteTo(&s.Logs), zap.UseDevMode(true))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	var err error
	if s.Cluster, err = cluster.Start(ctx, options); err == nil {
		defer func() {
			if err := s.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			}
		}()
		s.API, err = harness.Connect(ctx, s.Config, options.Name)
	}
	if err == nil && prepare != nil {
		err = prepare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
