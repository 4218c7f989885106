// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

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
