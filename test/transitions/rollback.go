// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/cli/past"
	"d3os.com/d3os-operator/internal/history"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// moment is a generation that was ready, and what was there then.
type moment struct {
	generation int64
	was        *live.Baseline
}

// remember returns the present as a moment; nil when the DataService is not ready or paused.
func (w *walker) remember(ctx context.Context) (*moment, error) {
	ds, err := w.now(ctx)
	if err != nil || ds.Spec.Paused || harness.IsReady(ds, ds.Generation) != nil {
		return nil, err
	}
	objects, err := w.space.Objects(ctx)
	return &moment{ds.Generation, live.NewBaseline(objects)}, err
}

// goBack does what `kubectl dataservice rollback` does with a moment: the manifests are those of then, but for what it says
// that it keeps. It returns the spec that there is now, or nil where there is nothing to go back to.
func (w *walker) goBack(ctx context.Context, to *moment) (map[string]any, error) {
	var spec map[string]any
	var kept []string
	none := false
	err := w.within(settles, func() (err error) { // the revision is written after the spec is accepted
		spec, kept, err = w.earlier(ctx, to.generation)
		if none = errors.Is(err, errDropped) || errors.Is(err, past.ErrNoPassword); none {
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
			return fmt.Errorf("rolled back to generation %d (kept: %s), but not as it was: %w", to.generation, strings.Join(kept, ", "), err)
		}
		return nil
	})
}

// isUsersSecret reports whether an object is the Secret with the passwords of MySQL's users. One that had gone comes back
// with another password.
func isUsersSecret(id string) bool {
	return strings.HasPrefix(id, "Secret/") && strings.HasSuffix(id, "-users")
}

// errDropped: the history is full, and does not have that revision any more.
var errDropped = errors.New("the history does not have it any more")

// earlier is the spec that going back to a generation gives, and what stays as it is.
func (w *walker) earlier(ctx context.Context, to int64) (spec map[string]any, kept []string, err error) {
	ds, err := w.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := w.client.AppsV1().ControllerRevisions(w.space.Name).List(ctx, metav1.ListOptions{LabelSelector: history.Label + "=" + string(ds.UID)})
	if err != nil {
		return nil, nil, err
	}
	var revisions []*history.Revision
	for i := range list.Items {
		r, err := history.Read(&list.Items[i])
		if err != nil {
			return nil, nil, err
		}
		revisions = append(revisions, r)
	}
	if len(revisions) >= history.Limit && !slices.ContainsFunc(revisions, func(r *history.Revision) bool { return r.Number == to }) {
		return nil, nil, errDropped
	}
	entry, err := past.Pick(ds, past.Entries(ds, revisions), to)
	if err != nil {
		return nil, nil, err
	}
	return past.Spec(ds, entry)
}

// keeps reports whether an object may differ because rollback keeps a field of its component, or one of all.
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
