// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

package alerts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"d3os.com/d3os-operator/test/cluster"
)

// panels asks Prometheus what each panel of the dashboard asks, over the time of the test.
func panels(t *testing.T, w *world) {
	text, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "prometheus", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$namespace", ".*", "$dataservice", ".*", "$component", ".*", "$__rate_interval", "10s")
	asked := 0
	for _, panel := range board.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q asks nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			asked++
			if found := w.over(variables.Replace(target.Expr), w.began); len(found) == 0 {
				t.Errorf("panel %q has no data: %s", panel.Title, target.Expr)
			}
		}
	}
	if asked < 20 {
		t.Errorf("%d queries were asked, which are not all", asked)
	}
}
