// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/live"
)

// fieldsOf are parts of a spec.
type fieldsOf = map[string]any

// changed returns a copy of a spec with changes: a merge patch, in which lists of named things
// are patched by name.
func changed(spec map[string]any, changes fieldsOf) map[string]any {
	next := clone(spec)
	merge(next, clone(changes))
	return next
}

func merge(to, from map[string]any) {
	for key, value := range from {
		change, isMap := value.(map[string]any)
		old, wasMap := to[key].(map[string]any)
		list, wasList := to[key].([]any)
		switch {
		case value == nil:
			delete(to, key)
		case isMap && wasList:
			for _, item := range list {
				item := item.(map[string]any)
				if change, ok := change[item["name"].(string)].(map[string]any); ok {
					merge(item, change)
				}
			}
		case isMap && wasMap:
			merge(old, change)
		default:
			to[key] = value
		}
	}
}

// on is a change of the component reports.
func on(changes fieldsOf) fieldsOf {
	return fieldsOf{"additionalServices": fieldsOf{"reports": changes}}
}

// scenarios are transitions that take more than one change of one property.
func scenarios() []job {
	return []job{
		{name: "scenario: components come and go", base: "services", do: comeAndGo},
		{name: "scenario: trouble", base: "middleware", do: trouble},
		{name: "scenario: there and back", base: "middleware", do: thereAndBack},
		{name: "scenario: operator down", base: "middleware", do: operatorDown},
		{name: "scenario: storage", base: "middleware", do: storage},
		{name: "scenario: paused and resumed", base: "middleware", do: paused},
		{name: "scenario: deleted while creating", do: deleteWhileCreating},
	}
}

// record adds a case with its error, if any, and returns an error only when nothing can go on.
func (w *walker) record(ctx context.Context, kind, what string, v verdict, err error) error {
	w.report.add(result{kind: kind, what: what, verdict: v, err: err})
	if err != nil && w.was != nil {
		return errors.Join(ctx.Err(), w.recovered(ctx))
	}
	return ctx.Err()
}

// comeAndGo takes each component out of the spec and brings it back.
func comeAndGo(ctx context.Context, w *walker) error {
	for _, name := range slices.Sorted(maps.Keys(w.spec)) {
		spec := clone(w.spec)
		delete(spec, name)
		var err error
		v := carriedOut
		if name == "mysql" || name == "uuc" || name == "eureka" { // others need them
			v = refused
			_, err = w.change(ctx, spec, client.DryRunAll)
			err = namesField(err, &property{path: []string{name}})
		} else {
			_, err = w.carryOut(ctx, spec)
			err = errors.Join(err, w.recovered(ctx))
		}
		if err := w.record(ctx, "component removed, brought back", name, v, err); err != nil {
			return err
		}
	}
	return nil
}

// troubles are changes that the platform is not well with, and what the status has to say of it.
var troubles = []struct {
	what  string
	set   fieldsOf
	words []string
}{
	{"image that does not exist", fieldsOf{"image": "registry.example/a:does-not-exist"}, []string{"ImagePullBackOff", "does-not-exist"}},
	{"container that crashes", fieldsOf{"image": "registry.example/a:crash-loop"}, []string{"CrashLoopBackOff"}},
	{"probe that never succeeds", fieldsOf{"image": "registry.example/a:never-ready", "probes": fieldsOf{"readiness": fieldsOf{"exec": fieldsOf{"command": []any{"false"}}}}}, nil},
	{"unsatisfiable affinity", fieldsOf{"affinity": fieldsOf{"nodeAffinity": fieldsOf{"requiredDuringSchedulingIgnoredDuringExecution": fieldsOf{
		"nodeSelectorTerms": []any{fieldsOf{"matchExpressions": []any{fieldsOf{"key": "no", "operator": "In", "values": []any{"such-node"}}}}}}}}}, []string{"Unschedulable", "affinity"}},
	{"unsatisfiable node selector", fieldsOf{"nodeSelector": fieldsOf{"no": "such-node"}}, []string{"Unschedulable", "selector"}},
	{"more than any node has", fieldsOf{"resources": fieldsOf{"requests": fieldsOf{"cpu": "1000"}}}, []string{"Unschedulable", "Insufficient cpu"}},
	{"priority class that does not exist", fieldsOf{"priorityClassName": "no-such-class"}, []string{"no-such-class"}},
	{"service account that does not exist", fieldsOf{"serviceAccountName": "no-such-account"}, []string{"no-such-account"}},
}

// trouble is named, with the component, and passes when it is taken back.
func trouble(ctx context.Context, w *walker) error {
	names := []string{"reports", "mysql", "eureka", "uuc"} // a Deployment, a StatefulSet, and what others call
	if !w.full {
		w.report.leave("troubles of eureka and uuc", 2*len(troubles))
		names = names[:2]
	}
	for _, name := range names {
		for _, t := range troubles {
			changes := fieldsOf{name: t.set}
			if name == "reports" {
				changes = on(t.set)
			}
			words := t.words
			if name == "mysql" && strings.HasSuffix(t.what, "does not exist") && t.set["image"] == nil {
				words = nil // a StatefulSet's status does not say why it has no pods
			}
			if t.words == nil && name == "uuc" {
				continue // the probe of what runs elsewhere is its own
			}
			err := w.inTrouble(ctx, changed(w.spec, changes), name, words)
			if err == nil {
				err = w.recovered(ctx)
			}
			if err := w.record(ctx, "trouble", name+": "+t.what, troubled, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) inTrouble(ctx context.Context, spec map[string]any, component string, words []string) error {
	return w.calm(10, 30, func() error {
		generation, err := w.change(ctx, spec)
		if err != nil {
			return err
		}
		return w.until(func() error {
			ds, err := w.seenAt(w.name, generation)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool { return c.Name == component })
			if i < 0 || ds.Status.Components[i].Phase == dsv1.PhaseRunning || meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionReady) {
				return fmt.Errorf("it is said to be well: phase %s: %s", ds.Status.Phase, ds.Status.Message)
			}
			if words == nil { // a probe may still succeed: it is being rolled out
				if c := ds.Status.Components[i]; c.Phase == dsv1.PhaseUpdating && meta.IsStatusConditionTrue(ds.Status.Conditions, dsv1.ConditionProgressing) {
					return nil
				}
				return fmt.Errorf("phase %s: %s", ds.Status.Phase, ds.Status.Message)
			}
			return w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonComponentFailing, append([]string{component}, words...)...)
		})
	})
}

// flips are changes that are taken back at once, or made while the operator is down.
var flips = map[string]fieldsOf{
	"reports.image": on(fieldsOf{"image": "registry.example.com/team/reports:v2"}), "reports.port": on(fieldsOf{"port": 8181}),
	"reports.replica": on(fieldsOf{"replica": 3}), "reports.kind": on(fieldsOf{"kind": "StatefulSet"}),
	"reports.env": on(fieldsOf{"env": fieldsOf{"A": "b"}}), "reports.name": on(fieldsOf{"name": "charts"}),
	"reports.serviceType": on(fieldsOf{"serviceType": "Headless"}), "reports.image (bad)": on(fieldsOf{"image": "a:does-not-exist"}),
	"reports.affinity (wrong)": on(fieldsOf{"affinity": fieldsOf{"nodeaffinity": fieldsOf{}}}),
	"mysql.kind":               {"mysql": fieldsOf{"kind": "Deployment"}}, "eureka.replica": {"eureka": fieldsOf{"replica": 3}},
	"uuc.thirdParty.url": {"uuc": fieldsOf{"thirdParty": fieldsOf{"url": "https://id.example.org"}}}, "web": {"web": nil}, "cronJobs": {"cronJobs": nil},
}

// thereAndBack changes the spec and takes it back at once, within 100 ms.
func thereAndBack(ctx context.Context, w *walker) error {
	for _, name := range slices.Sorted(maps.Keys(flips)) {
		attempt := func() error {
			if _, err := w.change(ctx, changed(w.spec, flips[name])); err != nil {
				return err
			}
			if err := w.recovered(ctx); err != nil { // its first act is the change back, some 10 ms later
				return err
			}
			return w.quiet()
		}
		if err := w.record(ctx, "A -> B -> A at once", name, carriedOut, attempt()); err != nil {
			return err
		}
	}
	return nil
}

// operatorDown changes the spec while there is no operator; the next one carries it out.
func operatorDown(ctx context.Context, w *walker) error {
	for _, name := range slices.Sorted(maps.Keys(flips)) {
		if strings.Contains(name, "(") {
			continue // they are not carried out
		}
		if name == "web" {
			continue // with the last of the product's services goes what they share, and a new operator generates another
		}
		err := w.whileDown(ctx, func() error {
			_, err := w.change(ctx, changed(w.spec, flips[name]))
			return err
		})
		if err == nil {
			_, err = w.carryOut(ctx, changed(w.spec, flips[name])) // which is a change no more
		}
		if err := w.record(ctx, "operator down while it changes", name, carriedOut, errors.Join(err, w.recovered(ctx))); err != nil {
			return err
		}
	}
	err := w.whileDown(ctx, func() error {
		if _, err := w.change(ctx, changed(w.spec, flips["reports.image"])); err != nil {
			return err
		}
		_, err := w.change(ctx, w.spec)
		return err
	})
	if err := w.record(ctx, "operator down while it changes", "there and back", carriedOut, errors.Join(err, w.recovered(ctx))); err != nil {
		return err
	}
	err = w.whileDown(ctx, func() error { return w.deleted(ctx, w.name) })
	return w.record(ctx, "operator down while it changes", "deleted and created anew", carriedOut, errors.Join(err, w.createdAnew(ctx)))
}

func (w *walker) whileDown(ctx context.Context, do func() error) error {
	if err := w.op.Stop(patience); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, w.operate(ctx))
}

// deleted deletes the DataService and waits until all that it controlled is gone.
func (w *walker) deleted(ctx context.Context, name string) error {
	if err := w.api.Delete(ctx, w.resource(name, map[string]any{})); err != nil {
		return err
	}
	return w.until(func() error {
		objects, err := w.space.Objects(ctx)
		if err != nil {
			return err
		}
		for id, object := range objects {
			if metav1.GetControllerOf(object) != nil && !live.Stays(object) {
				return fmt.Errorf("%s is still there", id)
			}
		}
		return nil
	})
}

// createdAnew creates the DataService again and expects what was there before.
func (w *walker) createdAnew(ctx context.Context) error {
	generation, err := w.create(ctx, w.name, w.spec)
	if err != nil {
		return err
	}
	if err := w.until(func() error { return w.isReady(w.name, generation) }); err != nil {
		return err
	}
	planned, err := w.planned(ctx)
	if err != nil {
		return err
	}
	return w.until(func() error {
		objects, err := w.space.Objects(ctx)
		if err != nil {
			return err
		}
		return w.space.Holds(ctx, planned, planned, objects)
	})
}

// storage grows and does not shrink.
func storage(ctx context.Context, w *walker) error {
	size := func(value any) map[string]any {
		return changed(w.spec, fieldsOf{"mysql": fieldsOf{"storage": fieldsOf{"size": value}}})
	}
	for _, larger := range []any{"20Gi", "20481Mi", int64(32212254720)} {
		_, err := w.carryOut(ctx, size(larger))
		w.report.add(result{kind: "storage", what: fmt.Sprintf("grown to %v", larger), verdict: carriedOut, err: err})
		if err != nil {
			return ctx.Err()
		}
	}
	p := &property{path: []string{"mysql", "storage", "size"}}
	for _, smaller := range []any{"20Gi", "1Gi", nil} {
		_, err := w.change(ctx, size(smaller))
		w.report.add(result{kind: "storage", what: fmt.Sprintf("shrunk to %v", smaller), verdict: refused, err: namesField(err, p)})
	}
	_, err := w.change(ctx, changed(size("30Gi"), fieldsOf{"mysql": fieldsOf{"storage": fieldsOf{"storageClassName": "simulated"}}}))
	w.report.add(result{kind: "storage", what: "another class", verdict: refused, err: namesField(err, &property{path: []string{"storageClassName"}})})
	return w.quiet()
}

// paused changes nothing until it is resumed.
func paused(ctx context.Context, w *walker) error {
	change := fieldsOf{"paused": true}
	maps.Copy(change, flips["reports.image"])
	err := w.calm(0, 10, func() error {
		generation, err := w.change(ctx, changed(w.spec, change))
		if err != nil {
			return err
		}
		return w.until(func() error { return w.says(w.name, generation, dsv1.ConditionPaused, dsv1.ReasonPaused) })
	})
	if err == nil {
		err = w.asBefore(ctx)
	}
	if err == nil {
		_, err = w.carryOut(ctx, changed(w.spec, flips["reports.image"]))
	}
	return w.record(ctx, "paused and resumed", "with a change meanwhile", carriedOut, errors.Join(err, w.recovered(ctx)))
}

// deleteWhileCreating deletes a DataService at several points of its creation and creates it anew.
func deleteWhileCreating(ctx context.Context, w *walker) error {
	spec, err := base("middleware")
	if err != nil {
		return err
	}
	w.spec = spec
	for _, least := range []int{0, 1, 3, 6, 9} {
		err := func() error {
			if _, err := w.create(ctx, w.name, spec); err != nil {
				return err
			}
			if err := w.until(func() error {
				objects, err := w.space.Objects(ctx)
				if err == nil && len(objects) < least {
					err = fmt.Errorf("%d objects", len(objects))
				}
				return err
			}); err != nil {
				return err
			}
			if err := w.deleted(ctx, w.name); err != nil {
				return err
			}
			if err := w.until(func() error {
				err := w.api.Get(ctx, client.ObjectKey{Namespace: w.space.Name, Name: w.name}, &dsv1.DataService{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(errors.New("the DataService is still there"), err)
			}); err != nil {
				return err
			}
			if err := w.createdAnew(ctx); err != nil {
				return err
			}
			return w.deleted(ctx, w.name)
		}()
		w.report.add(result{kind: "deleted while creating", what: fmt.Sprintf("after %d objects", least), verdict: carriedOut, err: err})
		if err != nil {
			return ctx.Err()
		}
	}
	return nil
}
