// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	strictjson "sigs.k8s.io/json"
)

// Error is a mistake in a spec.
type Error struct {
	Field   string // the path, such as spec.mysql.storage
	Message string
}

func (e *Error) Error() string { return e.Field + ": " + e.Message }

// FieldError returns an *Error.
func FieldError(path, format string, args ...any) error {
	return &Error{Field: path, Message: fmt.Sprintf(format, args...)}
}

// Decode reads a value into a Go type of Kubernetes' API. Unknown fields and wrong types are an *Error with the path of
// the field.
func Decode(path string, value, into any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return FieldError(path, "%v", err)
	}
	unknown, err := strictjson.UnmarshalStrict(data, into, strictjson.DisallowUnknownFields)
	if err != nil {
		return FieldError(path, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(unknown) > 0 {
		var field strictjson.FieldError
		if errors.As(unknown[0], &field) {
			return FieldError(path+"."+field.FieldPath(), "%s", unknownField(reflect.TypeOf(into), field.FieldPath()))
		}
		return FieldError(path, "%v", unknown[0])
	}
	return nil
}
