// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/utils/lru"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	smdvalue "sigs.k8s.io/structured-merge-diff/v6/value"

	"d3os.com/d3os-operator/internal/object"
)

// comparer reports whether applying a planned object would change the live object. It uses the library of server-side apply with
// Kubernetes' own schema: lists with keys are maps, atomic lists are values, and fields that the plan does not set are ignored.
type comparer struct {
	types    managedfields.TypeConverter
	verified *lru.Cache // UID -> verification
}

// verification records that an object was as planned. While its three values stay the same, the object is not compared again. It includes the sizes
// of a StatefulSet's volumes, because FitVolumes changes them after the digest was computed.
type verification struct{ resourceVersion, digest, sizes string }

// verifications limits the number of cached verifications. Each takes about 200 bytes.
const verifications = 1 << 16

func newComparer(converter managedfields.TypeConverter) *comparer {
	return &comparer{types: converter, verified: lru.New(verifications)}
}

func (c *comparer) same(planned, live *unstructured.Unstructured) (bool, error) {
	if object.Digest(planned) != object.Digest(live) {
		return false, nil
	}
	v := verification{live.GetResourceVersion(), object.Digest(planned), templateSizes(planned)}
	if known, ok := c.verified.Get(live.GetUID()); ok && known == v {
		return true, nil
	}
	same, err := c.contains(live, planned)
	if err == nil && same {
		c.verified.Add(live.GetUID(), v)
	}
	return same, err
}

// contains reports whether merging the planned fields into the live object changes nothing.
func (c *comparer) contains(live, planned *unstructured.Unstructured) (bool, error) {
	has, merged, err := c.mergeTyped(live, planned)
	if err != nil {
		return false, err
	}
	difference, err := has.Compare(merged)
	if err != nil {
		return false, fmt.Errorf("compare %s with its plan: %w", describe(live), err)
	}
	if !difference.Added.Empty() || !difference.Removed.Empty() {
		return false, nil
	}
	same := true
	difference.Modified.Iterate(func(path fieldpath.Path) {
		same = same && onlyDefaulted(path, at(path, live.Object), at(path, planned.Object))
	})
	return same, nil
}

// merge returns the live object with the planned fields set.
func (c *comparer) merge(live, planned *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	_, merged, err := c.mergeTyped(live, planned)
	if err != nil {
		return nil, err
	}
	content, ok := merged.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("merge %s with its plan: the result is no object", describe(live))
	}
	return (&unstructured.Unstructured{Object: content}).DeepCopy(), nil
}

func (c *comparer) mergeTyped(live, planned *unstructured.Unstructured) (has, merged *typed.TypedValue, err error) {
	if has, err = c.types.ObjectToTyped(live, typed.AllowDuplicates); err != nil {
		return nil, nil, fmt.Errorf("compare %s: %w", describe(live), err)
	}
	want, err := c.types.ObjectToTyped(planned)
	if err != nil {
		return nil, nil, fmt.Errorf("compare %s as planned: %w", describe(planned), err)
	}
	if merged, err = has.Merge(want); err != nil {
		return nil, nil, fmt.Errorf("compare %s with its plan: %w", describe(live), err)
	}
	return has, merged, nil
}

// onlyDefaulted reports whether two atomic values differ only in values that the API server has filled in, such as the volume mode of a claim
// template. A difference in an atomic map always counts, because an additional entry in a selector selects other pods. The exceptions are
// fieldRef and resourceFieldRef, in which the API server sets defaults.
func onlyDefaulted(path fieldpath.Path, live, planned any) bool {
	if planned == nil {
		return true // the Go type writes null for a field that the plan does not set
	}
	if _, isMap := planned.(map[string]any); isMap {
		last := path[len(path)-1].FieldName
		if last == nil || (*last != "fieldRef" && *last != "resourceFieldRef") {
			return false
		}
	}
	return covers(live, planned)
}

// covers reports whether a value in an atomic list is as planned. The value must have the planned fields (for lists:
// item by item), and the API server must have filled in all other fields.
func covers(live, planned any) bool {
	switch want := planned.(type) {
	case map[string]any:
		has, ok := live.(map[string]any)
		if !ok {
			return empty(want) && live == nil
		}
		for key, value := range want {
			// If the planned value is empty, the live field may be missing: the API server leaves out empty values.
			if there, ok := has[key]; ok && value != nil || !empty(value) {
				if !covers(there, value) {
					return false
				}
			}
		}
		for key, value := range has {
			if want[key] == nil && !filledIn(key, value) {
				return false
			}
		}
		return true
	case []any:
		has, ok := live.([]any)
		if !ok || len(has) != len(want) {
			return false
		}
		for i := range want {
			if !covers(has[i], want[i]) {
				return false
			}
		}
		return true
	default:
		return live == planned
	}
}

// itemDefaults are the values that the API server gives to fields of items of atomic lists: claim templates, ports of
// NetworkPolicies, sources of projected volumes.
var itemDefaults = map[string]any{
	"apiVersion": "v1", "kind": "PersistentVolumeClaim", "volumeMode": "Filesystem", "phase": "Pending",
	"protocol": "TCP", "divisor": "0", "expirationSeconds": int64(3600),
}

// filledIn reports whether a value is the API server's default for a field of an item in an atomic list. An empty
// selector is never a default, because it selects everything.
func filledIn(name string, value any) bool {
	if value == nil || value == false {
		return true
	}
	if fields, ok := value.(map[string]any); ok && (name == "metadata" || name == "resources" || name == "status") {
		for name, value := range fields {
			if !filledIn(name, value) {
				return false
			}
		}
		return true
	}
	known, ok := itemDefaults[name]
	return ok && known == value
}

func empty(value any) bool {
	m, ok := value.(map[string]any)
	return value == nil || ok && len(m) == 0
}

// at returns the value at a path of fields and list items, or nil.
func at(path fieldpath.Path, value any) any {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			m, _ := value.(map[string]any)
			value = m[*element.FieldName]
		case element.Key != nil:
			value = itemWith(*element.Key, value)
		default:
			return nil
		}
	}
	return value
}

func itemWith(key smdvalue.FieldList, list any) any {
	items, _ := list.([]any)
	for _, item := range items {
		m, ok := item.(map[string]any)
		for _, field := range key {
			ok = ok && (m[field.Name] == field.Value.Unstructured() || m[field.Name] == nil) // nil: the field has its default
		}
		if ok {
			return m
		}
	}
	return nil
}
