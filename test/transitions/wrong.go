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
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/live"
)

// mistakes expects the operator to name a property with a wrong value, and to change nothing while the value is wrong.
func (w *walker) mistakes(ctx context.Context, c chain) error {
	for _, value := range c.values {
		spec := clone(w.spec)
		c.set(spec, value, c.entry.With)
		err := w.mistake(ctx, spec, c.named)
		w.report.add(result{kind: "wrong value", what: fmt.Sprintf("%s: %s", c, text(value)), verdict: reported, err: err})
	}
	return w.recovered(ctx)
}

// mistake expects the operator to name a spec as wrong, and to write no object.
func (w *walker) mistake(ctx context.Context, spec map[string]any, named func(message string) error) error {
	return w.calm(0, 4, func() error {
		generation, err := w.change(ctx, spec)
		if err != nil {
			return fmt.Errorf("the API server refuses the spec: %w", err)
		}
		return w.until(func() error {
			if err := w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonInvalidSpec); err != nil {
				if w.isReady(w.name, generation) == nil {
					return &harness.FinalError{Err: errors.New("the wrong spec was carried out")}
				}
				return err
			}
			if err := named(w.last(w.name).Status.Message); err != nil {
				return &harness.FinalError{Err: err}
			}
			return w.says(w.name, generation, dsv1.ConditionStalled, dsv1.ReasonInvalidSpec)
		})
	})
}

// where returns the path of the property's component as conditions write it.
func (p *property) where() string {
	if item, isList := items[p.path[0]]; isList {
		return fmt.Sprintf("spec.%s[%s]", p.component(), item)
	}
	if p.component() == "defaults" { // the mistake is reported for a component that uses the default
		return "spec."
	}
	return "spec." + p.component()
}

// named expects a message to name the property, or the place in a pod at which the API server found the mistake.
func (p *property) named(message string) error {
	if err := harness.Mentions(message, p.where()); err != nil {
		return err
	}
	for _, word := range []string{p.leaf(), "spec.template.", "spec.jobTemplate.", "its pods have"} {
		if strings.Contains(message, word) {
			return nil
		}
	}
	return fmt.Errorf("the message does not name %s: %s", p.leaf(), shorten(message, 600))
}

// large is 1 MiB and 16 bytes.
var large = strings.Repeat("0123456789abcdef", 1<<16+1)

// oddInputs returns unusual values that the API server and the operator accept.
func oddInputs() map[string]fieldsOf {
	variables := make([]any, 500) // the API server's maximum
	for i := range variables {
		variables[i] = fieldsOf{"name": fmt.Sprintf("A%d", i), "value": "b"}
	}
	url := func(value string) fieldsOf { return fieldsOf{"uuc": fieldsOf{"thirdParty": fieldsOf{"url": value}}} }
	return map[string]fieldsOf{
		"500 variables in envs":        on(fieldsOf{"replica": 0, "envs": variables}),
		"a variable of 128 KiB":        on(fieldsOf{"replica": 0, "env": fieldsOf{"A": large[:128<<10]}}),
		"a Secret that does not exist": {"mysql": fieldsOf{"credentialsSecret": "no-such-secret"}},
		// The operator never connects to a url: a pod of the DataService checks it. Any pod of the author can reach
		// this address anyway.
		"url link-local":                  url("http://169.254.169.254/latest/meta-data"),
		"url link-local, IPv6":            url("http://[fe80::1]/"),
		"url of the API server":           url("https://kubernetes.default.svc"),
		"url of the API server's address": url("https://10.96.0.1:443"),
		"url loopback":                    url("http://127.0.0.1:8080"),
	}
}

// inputs sets each odd input and restores the spec.
func inputs(ctx context.Context, w *walker) error {
	odd := oddInputs()
	for _, what := range slices.Sorted(maps.Keys(odd)) {
		_, err := w.carryOut(ctx, changed(w.spec, odd[what]))
		if err := w.record(ctx, "input", what, errors.Join(err, w.recovered(ctx))); err != nil {
			return err
		}
	}
	return nil
}

// names creates DataServices with names that YAML could read as another type, and with the longest name.
func names(ctx context.Context, w *walker) error {
	spec := fieldsOf{"web": fieldsOf{"name": "one", "replica": 0}}
	for _, name := range []string{"a.b", "1st", "2024", "true", "null", strings.Repeat("b", 50)} {
		err := w.createReady(ctx, name, spec)
		if err == nil {
			err = w.deleted(ctx, name)
		}
		w.report.add(result{kind: "name of a DataService", what: name, verdict: carriedOut, err: err})
	}
	return errors.Join(w.namesThatMeet(ctx), ctx.Err())
}

// namesThatMeet creates two DataServices. In both, the names of the DataService and of its database, joined by a hyphen, are the same text.
// The objects of the DataServices must differ.
func (w *walker) namesThatMeet(ctx context.Context) error {
	err := w.createReady(ctx, "a-b", fieldsOf{"mysql": fieldsOf{"name": "c", "replica": 0}})
	if err == nil {
		err = w.createReady(ctx, "a", fieldsOf{"mysql": fieldsOf{"name": "b-c", "replica": 0}})
	}
	w.report.add(result{kind: "two in one namespace", what: "a-b with c, a with b-c", verdict: carriedOut, err: err})
	gone := w.api.Delete(ctx, w.resource("a", map[string]any{}))
	return errors.Join(gone, w.deleted(ctx, "a-b")) // deleted waits for the objects of both
}

// surroundings returns the jobs that test changes of the namespace by other users.
func surroundings() []job {
	return []job{
		{name: "surroundings: limit range", base: "middleware", do: defaults},
		{name: "surroundings: namespace", base: "middleware", do: terminatingNamespace},
	}
}

// defaults expects that defaults of a LimitRange are set in pods, and that the operator corrects nothing.
func defaults(ctx context.Context, w *walker) error {
	defaults := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
	}}}}
	defaults.Name, defaults.Namespace = "defaults", w.space.Name
	if err := w.api.Create(ctx, defaults); err != nil {
		return err
	}
	_, err := w.carryOut(ctx, changed(w.spec, on(fieldsOf{"replica": 3})))
	return w.record(ctx, "surroundings", "a LimitRange with defaults", errors.Join(err, w.quiet(ctx), w.recovered(ctx)))
}

// terminatingNamespace expects the operator to stop its attempts in a namespace that is being deleted.
func terminatingNamespace(ctx context.Context, w *walker) error {
	// The finalizer of this object delays the end of the namespace, so that the test can observe it.
	holder := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holder", Namespace: w.space.Name, Finalizers: []string{"example.com/hold"}}}
	if err := w.api.Create(ctx, holder); err != nil {
		return err
	}
	err := w.calm(40, 15, func() error {
		if err := w.api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.space.Name}}); err != nil {
			return err
		}
		if err := w.eventually(ctx, func(objects live.Objects) error {
			if len(objects) > 0 {
				return fmt.Errorf("%d objects still exist", len(objects))
			}
			return nil
		}); err != nil {
			return err
		}
		time.Sleep(time.Second) // repeated writes would continue; calm allows a single late write
		return nil
	})
	w.report.add(result{kind: "surroundings", what: "a terminating namespace", verdict: carriedOut, err: err})
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(w.api.Patch(ctx, holder, patch))
}
