// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// packed is a plan whose objects are JSON.
type packed struct {
	components []Component // without objects
	objects    [][][]byte  // of each component
}

func pack(p *Plan) (*packed, error) {
	result := &packed{components: slices.Clone(p.Components), objects: make([][][]byte, len(p.Components))}
	for i, c := range p.Components {
		result.components[i].Objects = nil
		for _, object := range c.Objects {
			data, err := object.MarshalJSON()
			if err != nil {
				return nil, fmt.Errorf("remember %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			result.objects[i] = append(result.objects[i], data)
		}
	}
	return result, nil
}

func (p *packed) unpack() (*Plan, error) {
	plan := &Plan{Components: slices.Clone(p.components)}
	for i, objects := range p.objects {
		for _, data := range objects {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(data); err != nil {
				return nil, fmt.Errorf("recall an object of %s: %w", plan.Components[i].Name, err)
			}
			plan.Components[i].Objects = append(plan.Components[i].Objects, object)
		}
	}
	return plan, nil
}
