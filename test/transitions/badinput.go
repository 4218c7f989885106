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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/inject"
)

// badInput runs the suite of harmful and wrong input for a DataService.
func badInput(ctx context.Context, s *suite) error {
	jobs := []job{
		{name: "inputs", base: "middleware", do: inputs},
		{name: "names", do: names},
	}
	const parts = 4
	for part := range parts {
		jobs = append(jobs, job{name: fmt.Sprintf("texts %d", part), base: "middleware", do: func(ctx context.Context, w *walker) error {
			return texts(ctx, w, part, parts)
		}})
	}
	return s.run(ctx, append(jobs, surroundings()...))
}

// payloads are texts that must never be interpreted as YAML, templates or commands.
var payloads = map[string]string{
	"template": `{{ fail "injected" }}{{ .Values }}`, "YAML": "a\nkind: Secret\nmetadata: {name: injected}\n---\n- x",
	"NUL": "a\x00b", "right-to-left": "a\u202eb", "delete": "a\x7fb", "next line": "a\u0085b",
}

// place is the path of a text in a spec.
type place struct {
	*property
	of    string
	value any // contains a neutral text at the path
}

// placesOf returns the paths of texts in a property: its value, the names and values of a map, the items of a list, and the texts in fields
// of Kubernetes types.
func placesOf(p *property) []place {
	if p.entry.Elsewhere != "" {
		return nil
	}
	switch {
	case p.schema.Type == "string", p.schema.XIntOrString:
		return []place{{p, "", inject.Neutral}}
	case p.schema.Type == "object" && p.schema.AdditionalProperties != nil:
		return []place{{p, " (value)", map[string]any{"NAME": inject.Neutral}}, {p, " (name)", map[string]any{inject.Neutral: "value"}}}
	case p.schema.Type == "array" && p.schema.Items.Schema.Type == "string":
		return []place{{p, "", []any{inject.Neutral}}}
	case p.schema.Type == "array" || p.schema.Type == "object":
		value := p.entry.Values[0]
		var found []place
		for i := range inject.Texts(value) {
			found = append(found, place{p, fmt.Sprintf(" (text %d)", i+1), inject.At(value, i)})
		}
		return found
	}
	return nil
}

// spec returns the base with a text at the path.
func (l place) spec(base map[string]any, text string) map[string]any {
	spec := clone(base)
	value := inject.Set(l.value, text)
	if named, isMap := value.(map[string]any); isMap {
		if v, ok := named[inject.Neutral]; ok {
			delete(named, inject.Neutral)
			named[text] = v
		}
	}
	l.set(spec, value, l.entry.With)
	return spec
}

// turn returns the names of the payloads for a place. The short form returns one, and alternates between them.
func (s *suite) turn(place int) []string {
	names := slices.Sorted(maps.Keys(payloads))
	if !s.full {
		names = names[place%len(names):][:1]
	}
	return names
}

// texts puts each text at every path of one part of the properties. Each text must be refused, be reported as a mistake, or appear in
// the manifests unchanged and without another change. Accepted texts are then set in the running platform.
func texts(ctx context.Context, w *walker, part, parts int) error {
	accepted := map[string][]chain{}
	for i, p := range w.all {
		if i%parts != part || !slices.Contains(sorts, p.component()) {
			continue
		}
		spec, err := base(where(p))
		if err != nil {
			return err
		}
		runs := map[string]any{} // by payload
		_, runsHere := w.spec[p.component()]
		runsHere = runsHere && p.component() != "uuc" && !slices.Contains(p.path, "thirdParty") // other walkers test uuc and third parties
		for n, l := range placesOf(p) {
			for _, name := range w.turn(i + n) {
				payload := payloads[name]
				v, err := w.judgeText(ctx, l, spec, payload)
				w.report.add(result{kind: "text: " + name, what: l.String() + l.of, verdict: v, err: err})
				if err == nil && v == carriedOut && !p.entry.Shares && runsHere {
					runs[name] = holderOf(l.spec(w.spec, payload), l.path)[l.leaf()]
				}
			}
		}
		if names := slices.Sorted(maps.Keys(runs)); len(names) > 0 { // only one text for each property; the texts alternate
			value := runs[names[i%len(names)]]
			accepted[p.component()] = append(accepted[p.component()], chain{property: p, values: []any{value}})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return w.runTexts(ctx, accepted)
}

// judgeText computes the outcome for a text by a dry run.
func (w *walker) judgeText(ctx context.Context, l place, spec map[string]any, payload string) (verdict, error) {
	ds, err := w.stored(ctx, l.spec(spec, payload))
	if err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return refused, harness.Mentions(err.Error(), l.leaf())
		}
		return "", err
	}
	with, err := w.planOf(ds)
	if err != nil {
		var mistake *render.Error
		if !errors.As(err, &mistake) {
			return "", fmt.Errorf("the refusal names no field: %w", err)
		}
		return reported, harness.Mentions(mistake.Field, l.where())
	}
	if ds, err = w.stored(ctx, l.spec(spec, inject.Neutral)); err != nil {
		return "", fmt.Errorf("this text is accepted, but a neutral text is refused: %w", err)
	}
	neutral, err := w.planOf(ds)
	if err != nil {
		return "", fmt.Errorf("this text is accepted, but a neutral text is a mistake: %w", err)
	}
	return carriedOut, inject.Same(with, neutral, payload)
}

// stored returns the DataService that the operator would read after the API server stored this spec.
func (w *walker) stored(ctx context.Context, spec map[string]any) (*dsv1.DataService, error) {
	asked := w.resource("another", spec)
	if err := w.api.Create(ctx, asked, client.DryRunAll); err != nil {
		return nil, err
	}
	stored, _ := asked.Object["spec"].(map[string]any)
	ds := &dsv1.DataService{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.resource(w.name, stored).Object, ds)
	dsv1.SetDefaults(ds)
	return ds, err
}

func (w *walker) planOf(ds *dsv1.DataService) ([]*unstructured.Unstructured, error) {
	none := func(string, string) (*unstructured.Unstructured, error) { return nil, nil }
	return plan.Planned(ds, w.planner, plan.NewPreview(), none)
}

// runTexts sets a text in every property of the running platform that accepts one, one property of each component at a time. Then it
// restores the spec.
func (w *walker) runTexts(ctx context.Context, accepted map[string][]chain) error {
	for i := 0; ; i++ {
		spec := clone(w.spec)
		var what []string
		for _, name := range slices.Sorted(maps.Keys(accepted)) {
			if i < len(accepted[name]) {
				c := accepted[name][i]
				c.set(spec, c.values[0], c.entry.With)
				what = append(what, fmt.Sprintf("%s = %q", c, text(c.values[0])))
			}
		}
		if what == nil {
			break
		}
		v, err := w.judge(ctx, spec)
		w.report.add(result{kind: "texts in a running platform", what: strings.Join(what, ", "), verdict: v, err: err})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	w.report.add(result{kind: "texts in a running platform", what: fmt.Sprintf("all of %s restored", w.space.Name), verdict: carriedOut, err: w.recovered(ctx)})
	return ctx.Err()
}
