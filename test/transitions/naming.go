// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func describe(moving []chain, step int) string {
	var all []string
	for _, c := range moving {
		all = append(all, fmt.Sprintf("%s = %s", c, text(c.values[step])))
	}
	return strings.Join(all, ", ")
}

func text(value any) string {
	data := fmt.Sprintf("%v", value)
	return shorten(strings.ReplaceAll(data, "\n", `\n`), 80)
}

// kindOf says what kind of transition a step of the chain is.
func (c chain) kindOf(spec map[string]any, step int) string {
	var was any
	if step > 0 {
		was = plain(c.values[step-1])
	} else if c.isSet(spec) {
		was = holderOf(clone(spec), c.path)[c.leaf()]
	}
	return kindOf(c.schema, was, plain(c.values[step]))
}

// last says what kind of transition the end of the chain is.
func (c chain) last(spec map[string]any) string {
	if c.isSet(spec) {
		return "change back"
	}
	return "delete"
}

func kindOf(schema *apiextensionsv1.JSONSchemaProps, was, is any) string {
	switch v := is.(type) {
	case bool:
		return "toggle"
	case int64:
		least, most := limits(schema)
		switch v {
		case least:
			return "minimum"
		case most:
			return "maximum"
		}
	case string:
		if v == "" {
			return "empty"
		}
	}
	if v := reflect.ValueOf(is); v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		had := 0
		if w := reflect.ValueOf(was); w.IsValid() && w.Kind() == v.Kind() {
			had = w.Len()
		}
		switch {
		case v.Len() == 0:
			return "empty"
		case v.Len() > had && had > 0:
			return "push"
		case v.Len() < had:
			return "pop"
		}
	}
	if was == nil {
		return "set"
	}
	return "change"
}
