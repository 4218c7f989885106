// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"d3os.com/d3os-operator/test/snapshot"
)

// look takes a snapshot of the platform.
func look(t *testing.T) snapshot.State {
	t.Helper()
	s, err := snapshot.Take(t.Context(), api, platformNamespace)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Pods) == 0 || len(s.Objects) == 0 {
		t.Fatalf("no platform in %s", platformNamespace)
	}
	return s
}

// brought is what this version brings to a platform of the last release: the guard of the database's data, which the next pod of
// the database has, and what is recorded of the data. No pod restarts for it.
var brought = []string{"StatefulSet/mysql-dataservice", "ConfigMap/mysql-dataservice-data"}

// unchanged waits until all is well and holds it against the state before: no pod was restarted or
// replaced and nothing was written but the objects that are named.
func unchanged(t *testing.T, before snapshot.State, except ...string) {
	t.Helper()
	without := func(objects map[string]string) {
		maps.DeleteFunc(objects, func(id, _ string) bool { return slices.Contains(except, id) })
	}
	without(before.Objects)
	shell(t, "kubectl wait --namespace "+platformNamespace+" --for condition=Ready dataservice/"+sample+" --timeout 3m")
	var diff string
	eventually(t, "all is as it was", time.Minute, func(ctx context.Context) error {
		now, err := snapshot.Take(ctx, api, platformNamespace)
		if err != nil {
			return fmt.Errorf("%w; before that:\n%s", err, diff)
		}
		without(now.Objects)
		if diff = cmp.Diff(before, now); diff != "" {
			return errors.New("the platform has changed (-before +after):\n" + diff)
		}
		return nil
	})
}
