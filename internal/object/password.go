// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrMissing reports that a Secret lacks a key.
var ErrMissing = errors.New("there is no such key")

// CleanPassword returns a secret without the newline at its end. It refuses values that servers, shells and environment variables read
// differently. The error is the reason. The agent and the charts' scripts have the same rule; testdata/rule.json tests all of them.
func CleanPassword(raw []byte) (string, error) {
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

// PasswordIn returns the clean value of a key of a Secret. isCut reports whether the value ends with a newline. An error names the Secret and the
// key.
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
			value, err = CleanPassword(raw)
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("the key %s of Secret %s is not used: %w", key, secret.GetName(), err)
	}
	return value, len(value) != len(raw), nil
}
