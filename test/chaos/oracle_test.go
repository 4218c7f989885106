// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/chaos/oracle"
)

// The oracle is no rubber stamp: it finds a state that is wrong, a password that was replaced, and
// an operator that goes on writing.
func TestOracleFinds(t *testing.T) {
	t.Parallel()
	sc := scenarioOf("create")
	base := sc.without(t)
	s := newStage(t)
	op := s.start()
	sc.act(s)
	if err := s.ends(op, base.end, true); err != nil {
		t.Fatal(err)
	}

	// Somebody who always undoes what the operator does makes it write without end.
	fight, give := context.WithCancel(s.Ctx)
	var fighter sync.WaitGroup
	fighter.Go(func() {
		for fight.Err() == nil {
			_ = api.Delete(fight, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: s.Namespace}})
		}
	})
	if _, err := s.quiet(op, stare, true); err == nil || !strings.Contains(err.Error(), "goes on writing") {
		t.Errorf("an endless writer: %v", err)
	}
	give()
	fighter.Wait()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "proxy", Namespace: s.Namespace}}
	s.Until("the last that was deleted is back", func() error {
		return api.Get(s.Ctx, client.ObjectKeyFromObject(config), config)
	})

	s.stop(op)
	s.Must(api.Patch(s.Ctx, config, client.RawPatch(types.MergePatchType, []byte(`{"data":{"stray":"x"}}`))))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mysql-dataservice-credentials", Namespace: s.Namespace}}
	s.Must(api.Patch(s.Ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"password":"b3RoZXI="}}`))))
	s.Until("the broken end state is found", func() error {
		diff := oracle.Diff(base.end, s.state(true))
		for _, part := range []string{"ConfigMap/proxy", "stray", "a generated value was replaced"} {
			if !strings.Contains(diff, part) {
				return fmt.Errorf("%q is missing in %q", part, diff)
			}
		}
		return nil
	})
}
