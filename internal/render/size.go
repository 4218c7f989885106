// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Limits for fields without a schema in the CRD. Existing resources may exceed the limits of the CRD, because API servers do not check them
// again.
const (
	maxItems  = 250    // limit for the items of a list or the fields of an object, below a field
	maxValues = 10_000 // limit for all values below a field
	maxFields = 1000   // limit for the entries of a field that is a list or a map
)

// CheckSize refuses the value of a field that would cost the operator too much time: lists or objects with too many items, or too many
// values in total.
func CheckSize(path string, value any) error {
	values := 0
	return checkSize(path, value, maxFields, &values)
}

func checkSize(path string, value any, limit int, values *int) error {
	tooMany := func(n int) error {
		return FieldError(path, "too large: a list or an object in it has %d items, but at most %d are allowed", n, limit)
	}
	if *values++; *values > maxValues {
		return FieldError(path, "too large: it has more than %d values in all; split it", maxValues)
	}
	switch v := value.(type) {
	case map[string]any:
		if len(v) > limit {
			return tooMany(len(v))
		}
		for _, below := range v {
			if err := checkSize(path, below, maxItems, values); err != nil {
				return err
			}
		}
	case []any:
		if len(v) > limit {
			return tooMany(len(v))
		}
		for _, below := range v {
			if err := checkSize(path, below, maxItems, values); err != nil {
				return err
			}
		}
	}
	return nil
}
