// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// storage grows, and stays in its class.
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
	for field, other := range map[string]string{"storageClassName": "simulated", "accessMode": "ReadWriteOncePod"} {
		_, err := w.change(ctx, changed(size("30Gi"), fieldsOf{"mysql": fieldsOf{"storage": fieldsOf{field: other}}}))
		w.report.add(result{kind: "storage", what: "another " + field, verdict: refused, err: namesField(err, &property{path: []string{field}})})
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
