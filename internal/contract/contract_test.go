// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// Each reason has a distinct exit code, and docs/backup.md lists both.
func TestExits(t *testing.T) {
	page, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]Reason{}
	for reason, code := range Exits {
		if other, ok := seen[code]; ok || code < 1 || code > 125 {
			t.Errorf("%s has the exit code %d, which reason %q also has, or which is not between 1 and 125", reason, code, other)
		}
		seen[code] = reason
		if !strings.Contains(string(page), fmt.Sprintf("| %d | `%s` |", code, reason)) {
			t.Errorf("docs/backup.md has no row for %d, %s", code, reason)
		}
	}
}

func TestErrorf(t *testing.T) {
	err := fmt.Errorf("outside: %w", Errorf(ReasonDamaged, "read %s: %w", "x", io.EOF))
	if ReasonOf(err) != ReasonDamaged || !errors.Is(err, io.EOF) || err.Error() != "outside: read x: EOF" {
		t.Error(err, ReasonOf(err))
	}
	if ReasonOf(io.EOF) != ReasonFailed {
		t.Error("an error without a reason does not count as ReasonFailed")
	}
}
