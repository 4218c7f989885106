// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build ha

package ha_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/preview"
	"d3os.com/d3os-operator/test/cluster"
)

const (
	// patience is how long anything may take that has no bound of its own; the machine may be busy.
	patience = 90 * time.Second
	// glance is how often what has no watch is looked at.
	glance = 50 * time.Millisecond
	// unrest is how often something changes that the leader has to write for.
	unrest = 60 * time.Millisecond
)

// stage is a namespace with a DataService and the replicas that care for it.
type stage struct {
	*testing.T
	ctx       context.Context
	namespace string
	replicas  int // started so far
	service   *dsv1.DataService
	spec      dsv1.DataServiceSpec // as it was first
	plan      map[string]string    // what the spec stands for
}

// newStage brings a DataService up with the first replica, which leads from then on.
func newStage(t *testing.T, name string) (*stage, *replica) {
	t.Helper()
	t.Parallel()
	s := &stage{T: t, ctx: context.WithoutCancel(t.Context()), namespace: "ha-" + name}
	s.must(api.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "samples", "d3os-product.com_v1_dataservice.yaml"))
	s.must(err)
	s.service, err = preview.Parse(data)
	s.must(err)
	s.service.Namespace, s.service.Spec.Web.NodePort = s.namespace, nil // the port is one for the whole cluster
	first := s.start()
	s.until("the first replica leads", func() (bool, error) { return s.tell().holder(time.Now()) == first.name, nil })
	s.must(api.Create(s.ctx, s.service))
	s.spec = *s.service.Spec.DeepCopy()
	s.awaitReady()
	s.plan = s.objects()
	return s, first
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) until(what string, holds func() (bool, error)) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.ctx, glance, patience, true, func(context.Context) (bool, error) { return holds() })
	if err != nil {
		s.Fatalf("wait until %s: %v", what, err)
	}
}

// tell returns the audit log of the namespace.
func (s *stage) tell() story {
	s.Helper()
	told, err := auditor.tell(s.namespace)
	s.must(err)
	return told
}

// disturb changes the DataService and deletes objects of it until the returned function is
// called, so that whoever leads has something to write at any time.
func (s *stage) disturb() (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(unrest)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.disturbOnce(ctx, n); err != nil && ctx.Err() == nil {
				s.Errorf("disturb: %v", err)
				return
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

func (s *stage) disturbOnce(ctx context.Context, n int) error {
	if n%2 == 0 {
		gone := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
		return client.IgnoreNotFound(api.Delete(ctx, gone))
	}
	patch := fmt.Sprintf(`{"spec":{"auth":{"env":{"TURN":%q}}}}`, strconv.Itoa(n))
	return api.Patch(ctx, s.service.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// settle gives the DataService its first spec again and compares what comes of it with what
// there was before.
func (s *stage) settle() {
	s.Helper()
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error { // the status moves meanwhile
		if err := api.Get(s.ctx, client.ObjectKeyFromObject(s.service), s.service); err != nil {
			return err
		}
		s.service.Spec = *s.spec.DeepCopy()
		return api.Update(s.ctx, s.service)
	}))
	s.awaitReady()
	s.until("the objects are as they were", func() (bool, error) { return maps.Equal(s.objects(), s.plan), nil })
}

func (s *stage) awaitReady() {
	s.Helper()
	s.until("the DataService is ready", func() (bool, error) {
		live := &dsv1.DataService{}
		err := api.Get(s.ctx, client.ObjectKeyFromObject(s.service), live)
		return live.Status.ObservedGeneration >= s.service.Generation && meta.IsStatusConditionTrue(live.Status.Conditions, dsv1.ConditionReady), err
	})
}

// objects returns what the operator manages, without what the cluster adds or a new object has
// anew.
func (s *stage) objects() map[string]string {
	s.Helper()
	found := map[string]string{}
	for _, gvk := range object.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		s.must(api.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{object.LabelManagedBy: object.ManagedBy}))
		for i := range list.Items {
			obj := &list.Items[i]
			kept := map[string]any{"labels": obj.GetLabels(), "digest": object.Digest(obj)}
			for _, owner := range obj.GetOwnerReferences() {
				kept["owner"] = owner.UID
			}
			for _, part := range []string{"spec", "data", "type", "immutable"} {
				kept[part] = obj.Object[part]
			}
			if spec, ok := obj.Object["spec"].(map[string]any); ok && gvk.Kind == "Service" {
				delete(spec, "clusterIP")
				delete(spec, "clusterIPs")
			}
			data, err := json.Marshal(kept)
			s.must(err)
			found[gvk.Kind+"/"+obj.GetName()] = string(data)
		}
	}
	if len(found) == 0 {
		s.Fatal(errors.New("the operator manages nothing"))
	}
	return found
}
