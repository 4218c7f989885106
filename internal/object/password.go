// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/base64"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/contract"
)

// ErrMissing reports that a Secret lacks a key.
var ErrMissing = errors.New("there is no such key")

// PasswordIn returns the clean value of a key of a Secret (see contract.CleanSecret). isCut reports whether the value in the Secret ends with a
// newline. An error names the Secret and the key.
func PasswordIn(secret *unstructured.Unstructured, key string) (value string, isCut bool, err error) {
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	encoded, ok := data[key]
	var raw []byte
	switch {
	case err != nil:
	case !ok:
		err = ErrMissing
	default:
		if raw, err = base64.StdEncoding.DecodeString(encoded); err == nil {
			value, err = contract.CleanSecret(raw)
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("the key %s of Secret %s is not used: %w", key, secret.GetName(), err)
	}
	return value, len(value) != len(raw), nil
}
