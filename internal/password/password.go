// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package password applies the one rule for secrets: one newline at the end is
// cut off, and what no server, shell and environment variable reads alike is
// refused. The agent and the charts' scripts have the same rule;
// testdata/rule.json holds all of them to it.
package password

import (
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrMissing is returned for a Secret that does not have a key.
var ErrMissing = errors.New("there is no such key")

// Clean returns a secret without the newline at its end, or why it is refused.
func Clean(raw []byte) (string, error) {
	if n := len(raw); n > 0 && raw[n-1] == '\n' {
		raw = raw[:n-1]
	}
	if len(raw) == 0 {
		return "", errors.New("it is empty")
	}
	for _, b := range raw {
		if b < 0x20 || b == 0x7f {
			return "", fmt.Errorf("it has the control character 0x%02x", b)
		}
	}
	if !utf8.Valid(raw) {
		return "", errors.New("it is no UTF-8")
	}
	return string(raw), nil
}

// In returns the clean value of a key of a Secret. IsCut reports whether the Secret has a newline behind it. An error names the
// Secret and the key.
func In(secret *unstructured.Unstructured, key string) (value string, isCut bool, err error) {
	data, _, err := unstructured.NestedStringMap(secret.Object, "data")
	encoded, ok := data[key]
	var raw []byte
	switch {
	case err != nil:
	case !ok:
		err = ErrMissing
	default:
		if raw, err = base64.StdEncoding.DecodeString(encoded); err == nil {
			value, err = Clean(raw)
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("the key %s of Secret %s is not used: %w", key, secret.GetName(), err)
	}
	return value, len(value) != len(raw), nil
}
