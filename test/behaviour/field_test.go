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

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/credentials"
	"d3os.com/d3os-operator/internal/plan"
	"d3os.com/d3os-operator/internal/preview"
	"d3os.com/d3os-operator/internal/render"
	fieldcases "d3os.com/d3os-operator/test/fields"
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
		case c.Refused != "" || c.Final != "":
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
			w := &walk{env: e, known: map[string]known{}}
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
	before []*unstructured.Unstructured          // planned
	was    map[string]*unstructured.Unstructured // live at the start
	known  map[string]known                      // what was last found to be as at the start
}

// known is a version of an object.
type known struct {
	uid     types.UID
	version string
}

func knownAs(object *unstructured.Unstructured) known {
	return known{object.GetUID(), object.GetResourceVersion()}
}

// supply creates what the cases refer to.
func (w *walk) supply() {
	w.Helper()
	objects, err := fieldcases.Objects()
	w.must(err)
	for _, object := range objects {
		if object.GetKind() != "PriorityClass" {
			object.SetNamespace(w.namespace)
		}
		if err := api.Create(w.ctx, object); !apierrors.IsAlreadyExists(err) {
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
		if w.was, err = w.live(); err != nil {
			return err
		}
		for id, object := range w.was {
			w.known[id] = knownAs(object)
		}
		return w.holds(w.before, w.before, w.was)
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
		w := &walk{env: &e, name: w.name, before: w.before, was: w.was, known: w.known}
		patch, err := fieldcases.Patch(s)
		w.must(err)
		w.carriedOut(client.RawPatch(types.MergePatchType, patch))
		w.check(s)
		if c := s[0]; c.Final != "" {
			err := api.Patch(w.ctx, w.dataService(w.name).DeepCopy(), spec)
			if err == nil || mentions(err.Error(), c.Final) != nil {
				t.Fatalf("taking it back is not refused: %v", err)
			}
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
	return w.same(live, func(string) bool { return true })
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
	ds := apply.Empty(dsv1.GroupVersion.WithKind(dsv1.Kind))
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
		if err := w.same(live, func(id string) bool {
			return !slices.Contains(d.Changed, id) && !slices.Contains(d.Removed, id) && !slices.Contains(d.Added, id)
		}); err != nil {
			return fmt.Errorf("what nobody changed: %w", err)
		}
		if err := w.moved(s, d, live); err != nil {
			return err
		}
		return w.holds(after, slices.DeleteFunc(slices.Clone(after), func(object *unstructured.Unstructured) bool {
			return !slices.Contains(d.Changed, fieldcases.ID(object)) && !slices.Contains(d.Added, fieldcases.ID(object))
		}), live)
	})
}

// moved expects what goes to be gone, and what changes or comes to be another than before.
func (w *walk) moved(s step, d fieldcases.Difference, live map[string]*unstructured.Unstructured) error {
	for _, id := range d.Removed {
		if live[id] != nil && !stays(live[id]) {
			return fmt.Errorf("%s is still there", id)
		}
	}
	replaces := slices.ContainsFunc(s, func(c fieldcases.Case) bool { return c.Replaces })
	replaced := false
	for _, id := range d.Changed {
		switch {
		case live[id] == nil:
			return fmt.Errorf("%s is missing", id)
		case content(live[id]) == content(w.was[id]):
			return fmt.Errorf("%s has not changed", id)
		}
		if another := live[id].GetUID() != w.known[id].uid; another && !replaces {
			w.Fatalf("%s was deleted and created anew", id)
		} else if another {
			replaced = true
		}
	}
	if replaces && !replaced {
		return errors.New("no object was replaced")
	}
	for _, id := range d.Added {
		if live[id] == nil {
			return fmt.Errorf("%s is missing", id)
		}
	}
	return nil
}

// planned returns the objects of the DataService as it is now. The Secrets have the live values.
func (w *walk) planned() ([]*unstructured.Unstructured, error) {
	ds := get(w.env, &dsv1.DataService{}, w.name)
	planner, err := planner()
	if err != nil {
		return nil, err
	}
	return preview.Planned(ds, planner, credentials.NewKeeper(), func(kind, name string) (*unstructured.Unstructured, error) {
		object := apply.Empty(schema.GroupVersionKind{Version: "v1", Kind: kind})
		err := api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return object, err
	})
}

// planner makes plans for the version of the cluster, as the operators do.
var planner = sync.OnceValues(func() (*plan.Planner, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	server, err := d.ServerVersion()
	if err != nil {
		return nil, err
	}
	renderer, err := render.New(server.GitVersion)
	if err != nil {
		return nil, err
	}
	return plan.NewPlanner(renderer, nil), nil
})

// holds asks the API server whether applying planned objects would change anything, and
// expects nothing to be there that is not planned.
func (w *walk) holds(all, asked []*unstructured.Unstructured, live map[string]*unstructured.Unstructured) error {
	for _, planned := range asked {
		id := fieldcases.ID(planned)
		if live[id] == nil {
			return fmt.Errorf("%s is missing", id)
		}
		applied := planned.DeepCopy()
		if err := api.Apply(w.ctx, client.ApplyConfigurationFromUnstructured(applied),
			client.FieldOwner(apply.FieldManager), client.ForceOwnership, client.DryRunAll); err != nil {
			return err
		}
		if _, ours, _ := unstructured.NestedFieldNoCopy(planned.Object, "spec", "replicas"); !ours {
			unstructured.RemoveNestedField(applied.Object, "spec", "replicas")
		}
		if was, is := exactly(live[id]), exactly(applied); was != is {
			return fmt.Errorf("applying %s would change it: %s", id, cmp.Diff(was, is))
		}
	}
	planned := fieldcases.ByID(all)
	for id, object := range live {
		if planned[id] == nil && !stays(object) {
			return fmt.Errorf("%s is there, but not planned", id)
		}
	}
	return nil
}

// live returns what the operator made, past the journal, without numbers of pods that an
// autoscaler decides on.
func (w *walk) live() (map[string]*unstructured.Unstructured, error) {
	found := map[string]*unstructured.Unstructured{}
	for _, gvk := range apply.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := api.List(w.ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{plan.LabelManagedBy: "d3os-operator"}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			found[fieldcases.ID(&list.Items[i])] = &list.Items[i]
		}
	}
	for _, object := range found {
		if object.GetKind() == "HorizontalPodAutoscaler" {
			kind, _, _ := unstructured.NestedString(object.Object, "spec", "scaleTargetRef", "kind")
			if target := found[kind+"/"+object.GetName()]; target != nil {
				unstructured.RemoveNestedField(target.Object, "spec", "replicas")
			}
		}
	}
	return found, nil
}

// same expects objects to be as they were at first. Data that stays may be there besides.
func (w *walk) same(live map[string]*unstructured.Unstructured, concerns func(id string) bool) error {
	for id, was := range w.was {
		if !concerns(id) || was.GetKind() == "PersistentVolumeClaim" {
			continue
		}
		if live[id] == nil {
			return fmt.Errorf("%s is missing", id)
		}
		if knownAs(live[id]) == w.known[id] {
			continue
		}
		if before, now := content(was), content(live[id]); before != now {
			return fmt.Errorf("%s is another: %s", id, cmp.Diff(before, now))
		}
		w.known[id] = knownAs(live[id])
	}
	for id, object := range live {
		if w.was[id] == nil && concerns(id) && !stays(object) {
			return fmt.Errorf("%s is there", id)
		}
	}
	return nil
}

// stays tells whether an object outlives its plan: data, and what opens it.
func stays(object *unstructured.Unstructured) bool {
	return plan.Kept(object) || object.GetKind() == "PersistentVolumeClaim"
}

// exactly is an object as text, without what changes when nothing is written to it.
func exactly(object *unstructured.Unstructured) string {
	object = object.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	data, err := yaml.Marshal(object.Object)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// content is an object as text, without its identity and without what was chosen for it.
func content(object *unstructured.Unstructured) string {
	object = object.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	for _, annotation := range []string{"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", annotation)
	}
	if object.GetKind() == "Service" {
		if address, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP"); address != corev1.ClusterIPNone {
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIPs")
		}
		ports, _, _ := unstructured.NestedSlice(object.Object, "spec", "ports")
		for _, port := range ports {
			if port := port.(map[string]any); port["nodePort"] != nil {
				port["nodePort"] = "some"
			}
		}
		if ports != nil {
			object.Object["spec"].(map[string]any)["ports"] = ports
		}
	}
	return fieldcases.Text(object)
}
