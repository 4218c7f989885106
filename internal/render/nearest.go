// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// unknownField returns a message about a field that does not exist, with the most similar name of a field. The path is relative to a value
// of the type.
func unknownField(in reflect.Type, path string) string {
	const unknown = "unknown field: there is no such field"
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		part, _, _ = strings.Cut(part, "[")
		if in = below(in, part); in == nil {
			return unknown
		}
	}
	if name := nearest(parts[len(parts)-1], fields(in)); name != "" {
		return fmt.Sprintf("%s; did you mean '%s'?", unknown, name)
	}
	return unknown
}

// element returns the element type of a pointer, list or map.
func element(t reflect.Type) reflect.Type {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	return t
}

// below returns the type of a field, or nil.
func below(t reflect.Type, name string) reflect.Type {
	i := slices.IndexFunc(fields(t), func(f field) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return fields(t)[i].of
}

type field struct {
	name string
	of   reflect.Type
}

// fields returns the JSON fields of a type, including inlined ones.
func fields(t reflect.Type) []field {
	t = element(t)
	if t.Kind() != reflect.Struct {
		return nil
	}
	var found []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && f.Anonymous:
			found = append(found, fields(f.Type)...)
		case name != "":
			found = append(found, field{name, f.Type})
		}
	}
	return found
}

// nearest returns the known name that is closest to a misspelt name, or "".
func nearest(given string, known []field) string {
	given = strings.ToLower(given)
	best, distance := "", max(2, len(given)/3)+1
	for _, f := range slices.SortedFunc(slices.Values(known), func(a, b field) int { return cmp.Compare(a.name, b.name) }) {
		name := strings.ToLower(f.name)
		d := edits(given, name)
		if len(given) >= 4 && strings.HasPrefix(name, given) {
			d = min(d, 2)
		}
		if d < distance {
			best, distance = f.name, d
		}
	}
	return best
}

// edits returns the number of letters to add, remove or change to convert one text to the other.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
