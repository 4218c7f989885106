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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/test/fields"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// moment is a generation of a ready DataService, with its objects.
type moment struct {
	generation int64
	was        *live.Baseline
}

// remember returns the present state as a moment, or nil if the DataService is paused or not ready.
func (w *walker) remember(ctx context.Context) (*moment, error) {
	ds, err := w.now(ctx)
	if err != nil || ds.Spec.Paused || harness.IsReady(ds, ds.Generation) != nil {
		return nil, err
	}
	objects, err := w.space.Objects(ctx)
	return &moment{ds.Generation, live.NewBaseline(objects)}, err
}

// goBack rolls back to a moment as `kubectl dataservice rollback` does. The manifests must equal the manifests of the moment, except in the
// fields that rollback keeps. It returns the new spec, or nil if the history no longer contains the spec or its password.
func (w *walker) goBack(ctx context.Context, to *moment) (map[string]any, error) {
	var spec map[string]any
	var kept []string
	none := false
	err := w.until(func() (err error) { // the operator writes the revision after it has accepted the spec
		spec, kept, err = w.earlier(ctx, to.generation)
		if none = errors.Is(err, errDropped) || errors.Is(err, plugin.ErrNoPassword); none {
			return nil
		}
		return err
	})
	if none || err != nil {
		return nil, err
	}
	if err := w.become(ctx, spec); err != nil {
		return nil, fmt.Errorf("rolled back to generation %d: %w", to.generation, err)
	}
	w.report.rolledBack.Add(1)
	return spec, w.eventually(ctx, func(objects live.Objects) error {
		err := to.was.Same(objects, func(id string) bool {
			return !live.IsRecord(id) && !isUsersSecret(id) && !keeps(kept, to.was, objects, id)
		})
		if err != nil {
			return fmt.Errorf("rolled back to generation %d (kept: %s), but the objects differ: %w", to.generation, strings.Join(kept, ", "), err)
		}
		return nil
	})
}

// isUsersSecret reports whether an object is the Secret with the passwords of MySQL's users. When it is created again after a deletion, the
// passwords are new.
func isUsersSecret(id string) bool {
	return strings.HasPrefix(id, "Secret/") && strings.HasSuffix(id, "-users")
}

// errDropped reports that the full history has deleted the requested revision.
var errDropped = errors.New("the history has deleted this revision")

// earlier returns the spec of an earlier generation as rollback applies it, and the fields that rollback keeps.
func (w *walker) earlier(ctx context.Context, to int64) (spec map[string]any, kept []string, err error) {
	ds, err := w.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := w.client.AppsV1().ControllerRevisions(w.space.Name).List(ctx, metav1.ListOptions{LabelSelector: reconcile.Label + "=" + string(ds.UID)})
	if err != nil {
		return nil, nil, err
	}
	var revisions []*reconcile.Revision
	for i := range list.Items {
		r, err := reconcile.Read(&list.Items[i])
		if err != nil {
			return nil, nil, err
		}
		revisions = append(revisions, r)
	}
	if len(revisions) >= reconcile.Limit && !slices.ContainsFunc(revisions, func(r *reconcile.Revision) bool { return r.Number == to }) {
		return nil, nil, errDropped
	}
	entry, err := plugin.Pick(ds, plugin.Entries(ds, revisions), to)
	if err != nil {
		return nil, nil, err
	}
	return plugin.Spec(ds, entry)
}

// keeps reports whether an object may differ because rollback keeps a field of its component, or of all components.
func keeps(kept []string, was *live.Baseline, now live.Objects, id string) bool {
	component := ""
	for _, o := range []*unstructured.Unstructured{was.Was[id], now[id]} {
		if o != nil {
			component = labelOf(o)
		}
	}
	return slices.ContainsFunc(kept, func(path string) bool {
		of, _, nested := strings.Cut(path, ".")
		return of == component || !nested
	})
}

// fieldsOf are fields of a spec.
type fieldsOf = map[string]any

// changed returns a copy of a spec after a merge patch in which lists of named things are patched by name.
func changed(spec map[string]any, changes fieldsOf) map[string]any {
	next := clone(spec)
	fields.Merge(next, clone(changes))
	return next
}

// on returns a patch of the spec that changes the additional service named reports.
func on(changes fieldsOf) fieldsOf {
	return fieldsOf{"additionalServices": fieldsOf{"reports": changes}}
}

// scenarios returns the transitions that are more than one change of one property.
func scenarios() []job {
	return []job{
		{name: "scenario: there and back", base: "middleware", do: thereAndBack},
		{name: "scenario: paused and resumed", base: "middleware", do: paused},
		{name: "scenario: hibernated and woken", base: "middleware", do: hibernated},
		{name: "scenario: deleted while creating", do: deleteWhileCreating},
		{name: "scenario: named word for word", base: "middleware", do: wordForWord},
	}
}

// record adds a case to the report. It returns an error only if the walker cannot continue.
func (w *walker) record(ctx context.Context, kind, what string, err error) error {
	w.report.add(result{kind: kind, what: what, verdict: carriedOut, err: err})
	if err != nil && w.was != nil {
		return errors.Join(ctx.Err(), w.recovered(ctx))
	}
	return ctx.Err()
}

// deleted deletes the DataService and waits until all its controlled objects are deleted.
func (w *walker) deleted(ctx context.Context, name string) error {
	if err := w.api.Delete(ctx, w.resource(name, map[string]any{})); err != nil {
		return err
	}
	return w.eventually(ctx, func(objects live.Objects) error {
		for id, object := range objects {
			if metav1.GetControllerOf(object) != nil && !live.Stays(object) {
				return fmt.Errorf("%s still exists", id)
			}
		}
		return nil
	})
}

// createdAgain creates the DataService again and expects the same objects as before.
func (w *walker) createdAgain(ctx context.Context) error {
	if err := w.createReady(ctx, w.name, w.spec); err != nil {
		return err
	}
	planned, err := w.planned(ctx)
	if err != nil {
		return err
	}
	return w.eventually(ctx, func(objects live.Objects) error { return w.space.Holds(ctx, planned, planned, objects) })
}

// paused expects that no object changes until the DataService is resumed.
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
	return w.record(ctx, "paused and resumed", "with a change in between", errors.Join(err, w.recovered(ctx)))
}

// hibernated expects no pods until the DataService wakes. Changes made during hibernation take effect then.
func hibernated(ctx context.Context, w *walker) error {
	asleep := changed(w.spec, fieldsOf{"hibernate": true})
	var err error
	for _, spec := range []map[string]any{asleep, changed(asleep, flips["reports.image"])} {
		if err == nil {
			err = w.calm(3*len(w.before)+20, 60, func() error { return w.sleeps(ctx, spec) })
		}
	}
	if err == nil {
		_, err = w.carryOut(ctx, changed(w.spec, flips["reports.image"]))
	}
	return w.record(ctx, "hibernated and woken", "with a change meanwhile", errors.Join(err, w.recovered(ctx)))
}

// sleeps sets a spec with hibernation, and waits until the phase is Hibernated.
func (w *walker) sleeps(ctx context.Context, spec map[string]any) error {
	generation, err := w.change(ctx, spec)
	if err != nil {
		return err
	}
	return w.until(func() error {
		ds, err := w.seenAt(w.name, generation)
		if err != nil {
			return err
		}
		if ds.Status.Phase != dsv1.PhaseHibernated {
			return fmt.Errorf("it is %s: %s", ds.Status.Phase, ds.Status.Message)
		}
		return nil
	})
}

// wordForWord expects the condition to quote the error of the plan. Kubernetes' message about this label contains double spaces.
func wordForWord(ctx context.Context, w *walker) error {
	v, err := w.judge(ctx, changed(w.spec, on(fieldsOf{"labels": fieldsOf{"a": "b c"}})))
	if err == nil && v != reported {
		err = fmt.Errorf("the result is %s, want %s", v, reported)
	}
	return w.record(ctx, "wrong value", "labels = map[a:b c], quoted exactly", errors.Join(err, w.recovered(ctx)))
}

// deleteWhileCreating deletes a DataService at several points of its creation, and creates it again.
func deleteWhileCreating(ctx context.Context, w *walker) (err error) {
	if w.spec, err = base("middleware"); err != nil {
		return err
	}
	for _, least := range []int{0, 1, 3, 6, 9} {
		err := w.deletedAfter(ctx, least)
		if err == nil {
			err = w.createdAgain(ctx)
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

// deletedAfter creates the DataService and deletes it when this many objects exist.
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
			return errors.Join(errors.New("the DataService still exists"), err)
		}
		return nil
	})
}

// flips are changes that are reverted immediately.
var flips = map[string]fieldsOf{
	"reports.image": on(fieldsOf{"image": "registry.example.com/team/reports:v2"}), "reports.port": on(fieldsOf{"port": 8181}),
	"reports.replica": on(fieldsOf{"replica": 3}), "reports.kind": on(fieldsOf{"kind": "StatefulSet"}),
	"reports.env": on(fieldsOf{"env": fieldsOf{"A": "b"}}), "reports.name": on(fieldsOf{"name": "charts"}),
	"reports.serviceType": on(fieldsOf{"serviceType": "Headless"}), "reports.image (bad)": on(fieldsOf{"image": "a:does-not-exist"}),
	"reports.affinity (wrong)": on(fieldsOf{"affinity": fieldsOf{"nodeaffinity": fieldsOf{}}}),
	"mysql.kind":               {"mysql": fieldsOf{"kind": "Deployment"}}, "eureka.replica": {"eureka": fieldsOf{"replica": 3}},
	"uuc.thirdParty.url": {"uuc": fieldsOf{"thirdParty": fieldsOf{"url": "https://id.example.org"}}}, "web": {"web": nil}, "cronJobs": {"cronJobs": nil},
}

// thereAndBack changes the spec and restores it within 100 ms.
func thereAndBack(ctx context.Context, w *walker) error {
	for _, name := range slices.Sorted(maps.Keys(flips)) {
		attempt := func() error {
			if _, err := w.change(ctx, changed(w.spec, flips[name])); err != nil {
				return err
			}
			if err := w.recovered(ctx); err != nil { // recovered restores the spec about 10 ms later
				return err
			}
			return w.quiet(ctx)
		}
		if err := w.record(ctx, "A -> B -> A at once", name, attempt()); err != nil {
			return err
		}
	}
	return nil
}
