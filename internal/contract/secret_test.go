// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestCleanSecret(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/rule.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Name, Clean, Refused string
		Raw                  []byte
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) == 0 {
		t.Fatal(err, len(rows))
	}
	for _, r := range rows {
		want := "<nil>"
		if r.Refused != "" {
			want = r.Refused
		}
		if got, err := CleanSecret(r.Raw); got != r.Clean || fmt.Sprint(err) != want {
			t.Errorf("%s: %q, %v", r.Name, got, err)
		}
	}
}
