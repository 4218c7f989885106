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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"d3os.com/d3os-operator/test/snapshot"
)

// look takes a snapshot of the platform when all of its pods are ready: a probe may fail for a moment on a busy machine.
func look(t *testing.T) (s snapshot.State) {
	t.Helper()
	eventually(t, "all pods are ready", time.Minute, func(ctx context.Context) (err error) {
		if s, err = snapshot.Take(ctx, api, platformNamespace); err != nil {
			return err
		}
		if len(s.Pods) == 0 || len(s.Objects) == 0 {
			return fmt.Errorf("no platform in %s", platformNamespace)
		}
		for pod, state := range s.Pods {
			if !strings.HasSuffix(state, "ready true") {
				return fmt.Errorf("%s: %s", pod, state)
			}
		}
		return nil
	})
	return s
}

// brought is what this version brings to a platform of the last release: the guard of the database's data, which the next pod of
// the database has, what is recorded of the data, the protocol of the database's port, and annotations on what outlives the
// platform. No pod restarts for it.
var brought = []string{
	"StatefulSet/mysql-dataservice", "ConfigMap/mysql-dataservice-data", "Service/mysql-dataservice",
	"Secret/mysql-dataservice-credentials", "PersistentVolumeClaim/data-mysql-dataservice-0",
}

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
