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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/live"
)

// fieldsOf are parts of a spec.
type fieldsOf = map[string]any

// changed returns a copy of a spec with changes: a merge patch, in which lists of named things
// are patched by name.
func changed(spec map[string]any, changes fieldsOf) map[string]any {
	next := clone(spec)
	fields.Merge(next, clone(changes))
	return next
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
		if name == "mysql" || name == "uuc" || name == "eureka" {
			continue // others need them: api/v1 shows that the API server refuses this
		}
		spec := clone(w.spec)
		delete(spec, name)
		_, err := w.carryOut(ctx, spec)
		err = errors.Join(err, w.recovered(ctx))
		if err := w.record(ctx, "component removed, brought back", name, carriedOut, err); err != nil {
			return err
		}
	}
	return nil
}

// deleted deletes the DataService and waits until all that it controlled is gone.
func (w *walker) deleted(ctx context.Context, name string) error {
	if err := w.api.Delete(ctx, w.resource(name, map[string]any{})); err != nil {
		return err
	}
	return w.eventually(ctx, func(objects live.Objects) error {
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
	if err := w.createReady(ctx, w.name, w.spec); err != nil {
		return err
	}
	planned, err := w.planned(ctx)
	if err != nil {
		return err
	}
	return w.eventually(ctx, func(objects live.Objects) error { return w.space.Holds(ctx, planned, planned, objects) })
}

// storage grows.
func storage(ctx context.Context, w *walker) error {
	for _, larger := range []any{"20Gi", "20481Mi", int64(32212254720)} {
		_, err := w.carryOut(ctx, changed(w.spec, fieldsOf{"mysql": fieldsOf{"storage": fieldsOf{"size": larger}}}))
		w.report.add(result{kind: "storage", what: fmt.Sprintf("grown to %v", larger), verdict: carriedOut, err: err})
		if err != nil {
			return ctx.Err()
		}
	}
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
		err = w.eventually(ctx, w.asBefore)
	}
	if err == nil {
		_, err = w.carryOut(ctx, changed(w.spec, flips["reports.image"]))
	}
	return w.record(ctx, "paused and resumed", "with a change meanwhile", carriedOut, errors.Join(err, w.recovered(ctx)))
}

// deleteWhileCreating deletes a DataService at several points of its creation and creates it anew.
func deleteWhileCreating(ctx context.Context, w *walker) (err error) {
	if w.spec, err = base("middleware"); err != nil {
		return err
	}
	for _, least := range []int{0, 1, 3, 6, 9} {
		err := w.deletedAfter(ctx, least)
		if err == nil {
			err = w.createdAnew(ctx)
		}
		if err == nil {
			err = w.deleted(ctx, w.name)
		}
		what := fmt.Sprintf("after %d objects", least)
		w.report.add(result{kind: "deleted while creating", what: what, verdict: carriedOut, err: err})
		if err != nil {
			return ctx.Err()
		}
	}
	return nil
}

// deletedAfter creates the DataService and deletes it once there are so many objects.
func (w *walker) deletedAfter(ctx context.Context, least int) error {
	if err := w.api.Create(ctx, w.resource(w.name, w.spec)); err != nil {
		return err
	}
	if err := w.eventually(ctx, func(objects live.Objects) error {
		if len(objects) < least {
			return fmt.Errorf("%d objects", len(objects))
		}
		return nil
	}); err != nil {
		return err
	}
	if err := w.deleted(ctx, w.name); err != nil {
		return err
	}
	return w.until(func() error {
		if _, err := w.now(ctx); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the DataService is still there"), err)
		}
		return nil
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
