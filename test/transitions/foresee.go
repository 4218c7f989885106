// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/harness"
)

// The short form runs diff only before every eachOf-th change, and in a random sequence before every eachOfSequence-th change.
const (
	eachOf         = 6
	eachOfSequence = 2
)

// forecast is the output of `kubectl dataservice diff` before a change, and the state before the change.
type forecast struct {
	*plugin.Diff

	mark   int // position in the record of the operator's writes
	before pods
}

// pods are the pods of each component, excluding pods of jobs.
type pods map[string][]types.UID

// foresee predicts the operator's actions for a spec. It returns nil for most changes of the short form, and if the DataService is paused
// or not ready.
func (w *walker) foresee(ctx context.Context, spec map[string]any, each int) (*forecast, error) {
	if w.changes++; !w.full && w.changes%each != 0 {
		return nil, nil
	}
	ds, err := w.now(ctx)
	if err != nil || ds.Spec.Paused || harness.IsReady(ds, ds.Generation) != nil {
		return nil, err
	}
	f := &forecast{mark: w.wrote.Mark()}
	if f.before, err = w.pods(ctx); err != nil {
		return nil, err
	}
	text, err := render.YAML(w.resource(w.name, spec))
	if err != nil {
		return nil, err
	}
	wanted, err := plan.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	wanted.UID, wanted.Status = ds.UID, ds.Status
	reader := &plugin.Reader{Dynamic: w.dynamic, Client: w.client, Namespace: w.space.Name}
	if f.Diff, _, err = w.oracle.Diff(ctx, reader, wanted); err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	w.report.foreseen.Add(1)
	return f, nil
}

// came returns an error unless exactly the foreseen actions happened: the operator wrote, replaced and deleted only the
// foreseen objects, and only the foreseen pods were replaced.
func (w *walker) came(ctx context.Context, f *forecast) error {
	if f == nil {
		return nil
	}
	foreseen := f.writes()
	return w.until(func() error {
		if difference := harness.Difference(w.writtenSince(f.mark), foreseen); difference != "" {
			return fmt.Errorf("the operator wrote other objects than diff had foreseen: %s", difference)
		}
		after, err := w.pods(ctx)
		if err != nil {
			return err
		}
		return f.restarted(after)
	})
}

// writes returns the objects that diff expects the operator to write or delete, without duplicates.
func (f *forecast) writes() []string {
	var found []string
	for i := range f.Changes {
		c := &f.Changes[i]
		id := c.Kind + "/" + c.Name
		switch {
		case c.Error != "":
			found = append(found, "refuse "+id+": "+c.Error)
		case c.Action == apply.Deleted:
			found = append(found, "delete "+id)
		case c.Action == apply.Replaced:
			found = append(found, "delete "+id, "write "+id)
		default:
			found = append(found, "write "+id)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// writtenSince returns the objects that the operator wrote or deleted after a mark.
func (w *walker) writtenSince(mark int) []string {
	var found []string
	for verb, deletes := range map[string]bool{"write ": false, "delete ": true} {
		sent := w.wrote.Since(mark, func(s harness.Sent) bool {
			return s.WritesObject() && s.Code < 300 && (s.Verb == "delete") == deletes
		})
		for _, id := range harness.Objects(sent) {
			found = append(found, verb+id)
		}
	}
	return found
}

// restarted returns an error unless exactly the foreseen pods of each component ended.
func (f *forecast) restarted(after pods) error {
	gone, scaled := map[string]int64{}, map[string]bool{}
	for i := range f.Changes {
		c := &f.Changes[i]
		workload := slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, c.Kind) // only for these kinds, diff counts pods
		switch {
		case c.Kind == "HorizontalPodAutoscaler":
			scaled[c.Component] = true // the workload's controller chooses the number of pods
		case workload && c.Action == apply.Deleted:
			gone[c.Component] = int64(len(f.before[c.Component]))
		case workload && c.Pods > 0:
			gone[c.Component] = c.Pods
		case workload:
			gone[c.Component] += fewer(c)
		}
	}
	for component, before := range f.before {
		went := int64(0)
		for _, pod := range before {
			if !slices.Contains(after[component], pod) {
				went++
			}
		}
		if went != gone[component] && !scaled[component] {
			return fmt.Errorf("%d of %d pods of %s ended; diff had foreseen %d", went, len(before), component, gone[component])
		}
	}
	return nil
}

// fewer returns the number of pods that a change removes from a workload.
func fewer(c *plugin.Change) int64 {
	for _, field := range c.Fields {
		was, isNumber := field.Old.(int64)
		is, stays := field.New.(int64)
		if field.Path == "spec.replicas" && isNumber && stays {
			return max(0, was-is)
		}
	}
	return 0
}

func (w *walker) pods(ctx context.Context) (pods, error) {
	list, err := w.client.CoreV1().Pods(w.space.Name).List(ctx, metav1.ListOptions{LabelSelector: plugin.Selector(w.name, "")})
	if err != nil {
		return nil, err
	}
	found := pods{}
	for i := range list.Items {
		pod := &list.Items[i]
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		name := pod.Labels[object.LabelComponent]
		found[name] = append(found[name], pod.UID)
	}
	return found, nil
}
