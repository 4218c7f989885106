// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

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
			err := errors.Join(w.inTrouble(ctx, changed(w.spec, changes), name, words), w.recovered(ctx))
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
