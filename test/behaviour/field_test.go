// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
	fieldcases "d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/live"
)

// walks is how many DataServices of one base share its cases.
var walks = map[string]int{"base": 4, "rich": 2}

// Every field of the spec, changed on a running DataService, reaches the live objects, and
// changed back leaves them as they were. What the table of test/fields says is the measure.
func TestFields(t *testing.T) {
	t.Parallel()
	cases, err := fieldcases.Cases()
	if err != nil {
		t.Fatal(err)
	}
	shares := map[string][]step{}
	count := map[string]int{}
	for _, s := range steps(cases) {
		c := s[0]
		share := c.Base
		switch {
		case c.Refused != "" || c.Stays != "":
			share = c.Name() // what it does stays
		case walks[c.Base] > 1:
			share = fmt.Sprintf("%s-%d", c.Base, count[c.Base]%walks[c.Base])
			count[c.Base]++
		}
		shares[share] = append(shares[share], s)
	}
	for _, share := range slices.Sorted(maps.Keys(shares)) {
		t.Run(share, func(t *testing.T) {
			e := parallel(t)
			w := &walk{env: e}
			w.startOperator()
			w.supply()
			w.start(shares[share])
		})
	}
}

// step is cases that are tried at once, because they have nothing in common.
type step []fieldcases.Case

func (s step) name() string {
	var names []string
	for i := range s {
		names = append(names, s[i].Name())
	}
	return strings.Join(names, "+")
}

// steps puts a case of web, one of the cron jobs and one of the additional services together.
func steps(cases []fieldcases.Case) []step {
	var all []step
	parts := map[string]map[string][]fieldcases.Case{} // by base and part
	for _, c := range cases {
		part := slices.Collect(maps.Keys(c.Set))
		if len(part) != 1 || !slices.Contains([]string{"web", "cronJobs", "additionalServices"}, part[0]) || c.Unchanged != "" {
			all = append(all, step{c})
			continue
		}
		if parts[c.Base] == nil {
			parts[c.Base] = map[string][]fieldcases.Case{}
		}
		parts[c.Base][part[0]] = append(parts[c.Base][part[0]], c)
	}
	for _, base := range slices.Sorted(maps.Keys(parts)) {
		for i := 0; ; i++ {
			var s step
			for _, part := range slices.Sorted(maps.Keys(parts[base])) {
				if list := parts[base][part]; i < len(list) {
					s = append(s, list[i])
				}
			}
			if s == nil {
				break
			}
			all = append(all, s)
		}
	}
	return all
}

// walk is one DataService on its way through a share of the cases.
type walk struct {
	*env
	name   string
	before []*unstructured.Unstructured // planned
	was    *live.Baseline               // live at the start
}

// supply creates what the cases refer to.
func (w *walk) supply() {
	w.Helper()
	objects, err := fieldcases.Objects()
	w.must(err)
	for _, obj := range objects {
		if obj.GetKind() != "PriorityClass" {
			obj.SetNamespace(w.namespace)
		}
		if err := api.Create(w.ctx, obj); !apierrors.IsAlreadyExists(err) {
			w.must(err)
		}
	}
}

func (w *walk) start(steps []step) {
	w.Helper()
	c := steps[0][0]
	base, err := fieldcases.Load(c.Base)
	w.must(err)
	if c.Refused != "" {
		w.refused(base, &c)
		return
	}
	w.name = w.createReady(base)
	w.until("the base is as planned", func() error {
		if w.before, err = w.planned(); err != nil {
			return err
		}
		objects, err := w.live()
		if err != nil {
			return err
		}
		w.was = live.NewBaseline(objects)
		return w.holds(w.before, w.before, objects)
	})
	for _, s := range steps {
		spec := w.spec()
		if !w.passes(s, spec) && !w.recovers(spec) {
			return // what comes after would have no fair start
		}
	}
}

// passes changes fields and changes them back.
func (w *walk) passes(s step, spec client.Patch) bool {
	return w.Run(s.name(), func(t *testing.T) {
		e := *w.env
		e.T = t
		w := &walk{env: &e, name: w.name, before: w.before, was: w.was}
		patch, err := fieldcases.Patch(s)
		w.must(err)
		w.carriedOut(client.RawPatch(types.MergePatchType, patch))
		w.check(s)
		if s[0].Stays != "" {
			w.must(api.Patch(w.ctx, w.dataService(w.name).DeepCopy(), spec))
			return
		}
		w.carriedOut(spec)
		w.until("all is as before", w.asBefore)
	})
}

// recovers puts the DataService back after a case that failed.
func (w *walk) recovers(spec client.Patch) bool {
	return api.Patch(w.ctx, w.dataService(w.name).DeepCopy(), spec) == nil && w.within(patience, w.asBefore) == nil
}

// asBefore returns how the live objects differ from those at the start, or nil.
func (w *walk) asBefore() error {
	live, err := w.live()
	if err != nil {
		return err
	}
	return w.was.Same(live, func(string) bool { return true })
}

// refused expects the API server to refuse a change of what runs, and a DataService that is
// so from the start to hold it.
func (w *walk) refused(base *unstructured.Unstructured, c *fieldcases.Case) {
	w.Helper()
	patch, err := fieldcases.Patch(step{*c})
	w.must(err)
	running := base.DeepCopy()
	running.SetNamespace(w.namespace)
	w.must(api.Create(w.ctx, running))
	err = api.Patch(w.ctx, running, client.RawPatch(types.MergePatchType, patch))
	if err == nil || mentions(err.Error(), c.Refused) != nil {
		w.Errorf("the change is not refused: %v", err)
	}
	changed, err := c.Changed()
	w.must(err)
	w = &walk{env: alone(w.T)}
	w.startOperator()
	w.name = w.createReady(changed)
	w.until("it is as planned", w.asPlanned)
}

// asPlanned returns how the live objects differ from the plan of the spec, or nil.
func (w *walk) asPlanned() error {
	planned, err := w.planned()
	if err != nil {
		return err
	}
	live, err := w.live()
	if err != nil {
		return err
	}
	return w.holds(planned, planned, live)
}

// spec returns a patch that makes the spec what it is now.
func (w *walk) spec() client.Patch {
	w.Helper()
	ds := object.Empty(dsv1.GroupVersion.WithKind(dsv1.Kind))
	patch, err := json.Marshal([]any{fields{"op": "replace", "path": "/spec", "value": get(w.env, ds, w.name).Object["spec"]}})
	w.must(err)
	return client.RawPatch(types.JSONPatchType, patch)
}

// carriedOut patches the DataService and waits until it is ready, or paused.
func (w *walk) carriedOut(patch client.Patch) {
	w.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name}}
	w.must(api.Patch(w.ctx, ds, patch))
	w.until("carried out", func() error {
		if now := w.dataService(w.name); ds.Spec.Paused && now.Status.ObservedGeneration >= ds.Generation {
			return hasCondition(now, dsv1.ConditionPaused, metav1.ConditionTrue, dsv1.ReasonPaused)
		}
		return w.isReady(w.name, ds.Generation)
	})
}

// check holds the live objects against the plan of the changed spec.
func (w *walk) check(s step) {
	w.Helper()
	w.until("it is what the change plans", func() error {
		after, err := w.planned()
		if err != nil {
			return err
		}
		d := fieldcases.Compare(w.before, after)
		if d.Empty() != (s[0].Unchanged != "") {
			w.Fatalf("the plan changes %v", d)
		}
		live, err := w.live()
		if err != nil {
			return err
		}
		if err := w.was.Same(live, func(id string) bool {
			return !slices.Contains(d.Changed, id) && !slices.Contains(d.Removed, id) && !slices.Contains(d.Added, id)
		}); err != nil {
			return fmt.Errorf("what nobody changed: %w", err)
		}
		if err := w.moved(s, d, live); err != nil {
			return err
		}
		return w.holds(after, slices.DeleteFunc(slices.Clone(after), func(obj *unstructured.Unstructured) bool {
			return !slices.Contains(d.Changed, fieldcases.ID(obj)) && !slices.Contains(d.Added, fieldcases.ID(obj))
		}), live)
	})
}

// moved expects what goes to be gone, and what changes or comes to be another than before.
func (w *walk) moved(s step, d fieldcases.Difference, objects map[string]*unstructured.Unstructured) error {
	for _, id := range d.Removed {
		if objects[id] != nil && !live.Stays(objects[id]) {
			return fmt.Errorf("%s is still there", id)
		}
	}
	replaces := slices.ContainsFunc(s, func(c fieldcases.Case) bool { return c.Replaces })
	replaced := false
	for _, id := range d.Changed {
		switch {
		case objects[id] == nil:
			return fmt.Errorf("%s is missing", id)
		case !w.was.Differs(objects[id]):
			return fmt.Errorf("%s has not changed", id)
		}
		if another := w.was.IsAnother(objects[id]); another && !replaces {
			w.Fatalf("%s was deleted and created anew", id)
		} else if another {
			replaced = true
		}
	}
	if replaces && !replaced {
		return errors.New("no object was replaced")
	}
	for _, id := range d.Added {
		if objects[id] == nil {
			return fmt.Errorf("%s is missing", id)
		}
	}
	return nil
}

// planned returns the objects of the DataService as it is now. The Secrets have the live values.
func (w *walk) planned() ([]*unstructured.Unstructured, error) {
	return w.space().Planned(w.ctx, get(w.env, &dsv1.DataService{}, w.name))
}

func (w *walk) live() (map[string]*unstructured.Unstructured, error) {
	return w.space().Objects(w.ctx)
}

func (w *walk) holds(all, asked []*unstructured.Unstructured, objects map[string]*unstructured.Unstructured) error {
	return w.space().Holds(w.ctx, all, asked, objects)
}

func (w *walk) space() *live.Namespace {
	w.Helper()
	planner, err := planner()
	w.must(err)
	return &live.Namespace{API: api, Planner: planner, Name: w.namespace}
}

// planner makes plans for the version of the cluster, as the operators do.
var planner = sync.OnceValues(func() (*plan.Planner, error) { return live.NewPlanner(config) })
