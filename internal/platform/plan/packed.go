// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bufio"
	"bytes"
	"compress/flate"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// packed holds the rendered objects of a DataService as compressed JSON, one object per line. This needs a fortieth of the memory of the
// objects. The type does not refer to the spec.
type packed struct {
	uid        types.UID
	components []packedComponent
	lines      []byte
}

type packedComponent struct {
	name            dsv1.ComponentName
	input, revision string
	objects         int
}

// writers is a pool, because each writer has a large table.
var writers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // fails only for unknown levels
	return w
}}

func pack(r *remembered) (*packed, error) {
	result := &packed{uid: r.uid, components: make([]packedComponent, len(r.inputs))}
	var lines bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&lines)
	for i, c := range r.plan.Components {
		result.components[i] = packedComponent{c.Name, r.inputs[i], c.Revision, len(c.Objects)}
		for _, object := range c.Objects {
			line, err := object.MarshalJSON() // contains no line break except at its end
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

// holds reports whether p contains the objects of r: both were rendered for the same DataService from the same inputs.
func (p *packed) holds(r *remembered) bool {
	if p.uid != r.uid || len(p.components) != len(r.inputs) {
		return false
	}
	for i, c := range p.components {
		if c.name != r.plan.Components[i].Name || c.input != r.inputs[i] {
			return false
		}
	}
	return true
}

// size returns the approximate size in memory.
func (p *packed) size() int {
	const component = 200 // bytes for the name and the digests of a component
	return len(p.lines) + len(p.components)*component
}

// unpack returns the renderings by component. It omits renderings that cannot be read, so that they are rendered again.
func (p *packed) unpack() map[dsv1.ComponentName]rendering {
	known := make(map[dsv1.ComponentName]rendering, len(p.components))
	lines := bufio.NewReader(flate.NewReader(bytes.NewReader(p.lines)))
	for _, c := range p.components {
		objects := make([]*unstructured.Unstructured, c.objects)
		for i := range objects {
			objects[i] = &unstructured.Unstructured{}
			line, err := lines.ReadBytes('\n')
			if err == nil {
				err = objects[i].UnmarshalJSON(line)
			}
			if err != nil {
				return known
			}
		}
		known[c.name] = rendering{c.input, objects, c.revision}
	}
	return known
}
