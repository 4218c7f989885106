// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/plugin/why"
)

const (
	// pause is the time between two diagnoses of StaysWell.
	pause = 300 * time.Millisecond
	// least is the minimum number of diagnoses that StaysWell makes.
	least = 5
	// late is a text of why that is correct on a busy machine, where the operator needs more than ten seconds to observe a resource.
	late = "the operator has not reported on generation"
)

// StaysWell diagnoses a resource of a database at least five times, until the returned function is called. The returned function fails the
// test if a diagnosis reported a problem. On a busy machine, diagnoses with one of the texts in busy are correct.
func StaysWell(t *testing.T, cfg *rest.Config, kind schema.GroupVersionKind, namespace, name string, busy ...string) (end func()) {
	t.Helper()
	of := object.Empty(kind)
	of.SetNamespace(namespace)
	of.SetName(name)
	ctx := context.WithoutCancel(t.Context())
	stop, done := make(chan struct{}), make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	busy = append(busy, late)
	var asked int
	var wrong []string
	go func() {
		defer close(done)
		for !stopped() || asked < least {
			d, err := explain(ctx, cfg, of)
			switch {
			case err != nil:
				wrong = append(wrong, err.Error())
			case d.Wrong:
				if said := d.Print(plugin.Style{}, time.Now()); !slices.ContainsFunc(busy, func(text string) bool { return strings.Contains(said, text) }) {
					wrong = append(wrong, said)
				}
			}
			asked++
			select {
			case <-stop:
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		<-done
		if len(wrong) > 0 {
			t.Errorf("why said %d of %d times that something is wrong, first:\n%s", len(wrong), asked, wrong[0])
		}
	}
}

// explain reads the same objects as the plugin, and diagnoses them.
func explain(ctx context.Context, cfg *rest.Config, of *unstructured.Unstructured) (*why.Diagnosis, error) {
	reader := plugin.Reader{Namespace: of.GetNamespace()}
	var err error
	if reader.Dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, err
	}
	if reader.Client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, err
	}
	live, err := reader.Dynamic.Resource(object.ResourceOf(of.GroupVersionKind())).Namespace(of.GetNamespace()).Get(ctx, of.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", of.GetKind(), of.GetName(), err)
	}
	f, err := why.Alone(live)
	if err != nil {
		return nil, err
	}
	f.Now = time.Now()
	events, err := reader.Client.CoreV1().Events(of.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	f.Events = events.Items
	if f.Pods, err = reader.Pods(ctx, plugin.SelectorOf(live)); err != nil {
		return nil, err
	}
	objects, _, err := reader.Objects(ctx, plugin.SelectorOf(live), slices.Concat(object.Kinds, object.Optional))
	if err != nil {
		return nil, err
	}
	f.Objects = append(objects, live)
	return why.Explain(f), nil
}
