// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// CleanSecret returns a secret without the newline at its end. It returns an error with the reason for a value that servers, shells and
// environment variables would interpret differently. The scripts of the charts apply the same rule, and testdata/rule.json contains the
// test cases for all of them.
func CleanSecret(raw []byte) (string, error) {
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
