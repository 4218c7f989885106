// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bufio"
	"bytes"
	"compress/flate"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// packed is a plan whose objects are compressed JSON, a line each: a fortieth of their size in memory.
type packed struct {
	components []Component // without objects
	counts     []int       // of the objects of each component
	lines      []byte
}

// writers are kept because each of them has a large table.
var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // errs on unknown levels only
	return w
}}

func pack(p *Plan) (*packed, error) {
	result := &packed{components: slices.Clone(p.Components), counts: make([]int, len(p.Components))}
	var lines bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&lines)
	for i, c := range p.Components {
		result.components[i].Objects, result.counts[i] = nil, len(c.Objects)
		for _, object := range c.Objects {
			line, err := object.MarshalJSON() // ends with a line break, its only one
			if err == nil {
				_, err = w.Write(line)
			}
			if err != nil {
				return nil, fmt.Errorf("remember %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("remember a plan: %w", err)
	}
	result.lines = bytes.Clone(lines.Bytes())
	return result, nil
}

func (p *packed) unpack() (*Plan, error) {
	plan := &Plan{Components: slices.Clone(p.components)}
	lines := bufio.NewReader(flate.NewReader(bytes.NewReader(p.lines)))
	for i, count := range p.counts {
		for range count {
			object := &unstructured.Unstructured{}
			line, err := lines.ReadBytes('\n')
			if err == nil {
				err = object.UnmarshalJSON(line)
			}
			if err != nil {
				return nil, fmt.Errorf("recall an object of %s: %w", plan.Components[i].Name, err)
			}
			plan.Components[i].Objects = append(plan.Components[i].Objects, object)
		}
	}
	return plan, nil
}
