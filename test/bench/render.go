// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/render"
)

// What planning may take, in milliseconds of CPU: twice and more of what was measured on two busy cores (54, 9.4 and 0.08).
const (
	renderWhole  = 120
	renderChange = 30
	renderCached = 0.3
)

// renderTime measures what stands before the first write of a reconciliation: graph,
// credentials, values and charts of the sample.
type renderTime struct {
	planner *plan.Planner
	keeper  *credentials.Keeper
	ds      *dsv1.DataService
}

func (renderTime) run(_ context.Context, b *bench) error {
	r := renderTime{keeper: credentials.NewKeeper(), ds: b.sample.DeepCopy()}
	r.ds.UID = "bench"
	t := b.report.table("", "ms", "CPU ms", "ALLOCATIONS", "BYTES")
	var failed error
	measure := func(name string, limit *bound, do func() error) {
		before := cpuSeconds()
		result := testing.Benchmark(func(tb *testing.B) {
			for tb.Loop() {
				if err := do(); err != nil {
					failed = err
					tb.SkipNow()
				}
			}
		})
		if result.N == 0 {
			failed = errors.Join(failed, errors.New(name+" could not be measured"))
			return
		}
		each := float64(result.T.Nanoseconds()) / float64(result.N)
		cpu := b.report.check(name+", CPU ms", (cpuSeconds()-before)*1000/float64(result.N), limit)
		t.row(name, number(each/1e6), cpu, number(float64(result.AllocsPerOp())), number(float64(result.AllocedBytesPerOp())))
	}
	load := func() error {
		renderer, err := render.New(b.version)
		if err == nil {
			r.planner = plan.NewPlanner(renderer, nil)
		}
		return err
	}
	measure("load the charts", nil, load)
	measure("first, charts loaded for it", nil, func() error { return errors.Join(load(), r.plan()) })
	measure("all of it", atMost(renderWhole), func() error { r.planner.Forget(r.ds.Namespace, r.ds.Name); return r.plan() })
	measure("a new generation, one image changed", atMost(renderChange), r.change)
	measure("cached", atMost(renderCached), r.plan)
	t.flush()
	b.report.note("\nCPU is all of this process's, with garbage collection; unlike the time it hardly depends on who else uses the machine.")
	return failed
}

// change changes one image of the sample and plans it.
func (r *renderTime) change() error {
	r.ds.Generation++
	r.ds.Spec.Auth.Image = fmt.Sprintf("registry.example.com/auth:v%d", r.ds.Generation)
	return r.plan()
}

// plan plans the sample.
func (r *renderTime) plan() error {
	graph, err := r.planner.Graph(r.ds)
	if err != nil {
		return err
	}
	secrets, err := r.keeper.Plan(r.ds, graph, func(string, string) (*unstructured.Unstructured, error) { return nil, nil }, nil)
	if err != nil {
		return err
	}
	_, err = r.planner.Make(r.ds, graph, secrets.Credentials)
	return err
}
