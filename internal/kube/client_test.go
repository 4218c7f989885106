// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// stuck is a cache that never shows the last write.
type stuck struct {
	client.Client

	lists int
}

func (s *stuck) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return fmt.Errorf("failed to wait for cache to catch up: %w", ctx.Err())
}

func (s *stuck) List(ctx context.Context, _ client.ObjectList, opts ...client.ListOption) error {
	if (&client.ListOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
		s.lists++
		return nil
	}
	return s.Get(ctx, client.ObjectKey{}, nil)
}

// server is an API server with one Service.
type server struct {
	client.Reader

	labels map[string]string
}

func (s *server) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if key.Name != "there" {
		return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
	}
	obj.SetName(key.Name)
	obj.SetLabels(s.labels)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "any"}})
	return nil
}

// A cache that never catches up delays a read only briefly. After the delay, the read uses the API server, and removes the fields that the
// cache omits.
func TestReadsAreBounded(t *testing.T) {
	live := &server{labels: map[string]string{object.LabelManagedBy: object.ManagedBy}}
	cache := &stuck{}
	c := &boundedClient{Client: cache, live: live, cached: managed(), patience: time.Millisecond}
	service := func() *unstructured.Unstructured { return object.Empty(corev1.SchemeGroupVersion.WithKind("Service")) }

	found := service()
	assert.NilError(t, c.Get(t.Context(), client.ObjectKey{Name: "there"}, found))
	assert.Equal(t, found.GetName(), "there")
	assert.Assert(t, found.GetManagedFields() == nil)

	assert.Assert(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "gone"}, service())))

	live.labels = nil
	assert.Assert(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: "there"}, service())))
	assert.NilError(t, c.Get(t.Context(), client.ObjectKey{Name: "there"}, &corev1.Service{})) // an object that is read with a Go type is never hidden

	assert.NilError(t, c.List(t.Context(), &corev1.PersistentVolumeClaimList{}))
	assert.Equal(t, cache.lists, 1)
}

// late is a cache that shows a patch only after some more reads.
type late struct {
	client.Client

	shows, last string
	reads       int // number of reads until the cache shows last
}

func (l *late) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if l.reads--; l.reads <= 0 {
		l.shows = l.last
	}
	obj.SetName(key.Name)
	obj.SetResourceVersion(l.shows)
	return nil
}

func (l *late) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
	obj.SetResourceVersion(l.last)
	return nil
}

// A read shows what this process patched without Go types, although controller-runtime does not wait for such patches.
func TestReadsShowWhatWasPatched(t *testing.T) {
	configMap := func() *unstructured.Unstructured {
		o := object.Empty(object.ConfigMapKind)
		o.SetName("there")
		return o
	}
	read := func(c client.Client) string {
		o := configMap()
		assert.NilError(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		return o.GetResourceVersion()
	}
	cache := &late{shows: "9", last: "9"}
	c := NewClient(cache, nil)
	assert.Equal(t, read(c), "9")
	cache.last, cache.reads = "10", 3
	assert.NilError(t, c.Patch(t.Context(), configMap(), nil))
	assert.Equal(t, read(c), "10")
	cache.shows, cache.last, cache.reads = "11", "12", 2
	assert.Equal(t, read(c), "11", "a read does not wait for writes of another process")

	never := &late{shows: "10", last: "11", reads: 1 << 30}
	c = &boundedClient{Client: never, live: &late{shows: "11", last: "11"}, cached: labels.Everything(), patience: time.Millisecond, written: newWritten()}
	assert.NilError(t, c.Patch(t.Context(), configMap(), nil))
	assert.Equal(t, read(c), "11", "the API server returns the write that the cache does not show")
}

// If the time of the reconciliation has run out, a read fails. It does not use the API server instead of the cache.
func TestReadsEndWithTheReconciliation(t *testing.T) {
	c := &boundedClient{Client: &stuck{}, live: &server{}, cached: managed(), patience: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, c.Get(ctx, client.ObjectKey{Name: "there"}, &corev1.Service{}), context.DeadlineExceeded)
	assert.ErrorIs(t, c.List(ctx, &corev1.PersistentVolumeClaimList{}), context.DeadlineExceeded)
}

// If the cache of a kind lags, only the first read of that kind waits for cachePatience. Later reads wait for
// lagPatience, so that reads of many objects fit into the two minutes of a reconciliation.
func TestALaggingKindIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the test uses a virtual clock
		c := NewClient(&stuck{}, &server{labels: map[string]string{object.LabelManagedBy: object.ManagedBy}})
		reads := func(kind string, n int) time.Duration {
			start := time.Now()
			for range n {
				assert.NilError(t, c.Get(t.Context(), client.ObjectKey{Name: "there"}, object.Empty(corev1.SchemeGroupVersion.WithKind(kind))))
			}
			return time.Since(start)
		}
		assert.Equal(t, reads("Service", 40), cachePatience+39*lagPatience)
		assert.Equal(t, reads("Service", 1), lagPatience)
		assert.Equal(t, reads("Secret", 2), cachePatience+lagPatience, "another kind has a separate cache")

		start := time.Now()
		assert.NilError(t, c.List(t.Context(), object.EmptyList(corev1.SchemeGroupVersion.WithKind("Service"))))
		assert.Equal(t, time.Since(start), lagPatience, "a list reads the same cache")

		time.Sleep(lagMemory) // of the virtual clock
		assert.Equal(t, reads("Service", 1), cachePatience, "the cache may have caught up after lagMemory")
	})
}

func TestEscape(t *testing.T) {
	for name, c := range map[string]struct {
		contentType types.PatchType
		body, want  string
	}{
		"an apply without such characters": {types.ApplyYAMLPatchType, `{"a":"é\n\u2028 🙂"}`, `{"a":"é\n\u2028 🙂"}`},
		"an apply with them":               {types.ApplyYAMLPatchType, "{\"a\x7f\":\"b\u0085c\uffff\"}", `{"a\u007f":"b\u0085c\uffff"}`},
		"another patch":                    {types.MergePatchType, "{\"a\":\"\x7f\"}", "{\"a\":\"\x7f\"}"},
	} {
		transport := Escape(roundTripper{do: func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			assert.NilError(t, err)
			again, err := readBody(r) // the transport reads the body again after a redirection or a broken connection
			assert.NilError(t, err)
			assert.Equal(t, string(body), c.want, name)
			assert.Equal(t, again, c.want, name)
			assert.Equal(t, r.ContentLength, int64(len(body)), name)
			return &http.Response{}, nil
		}})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "https://cluster", strings.NewReader(c.body))
		assert.NilError(t, err)
		r.Header.Set("Content-Type", string(c.contentType))
		_, err = transport.RoundTrip(r) //nolint:bodyclose // it has none
		assert.NilError(t, err)
	}
}

// informed implements the methods of an informer that Lists calls.
type informed struct {
	version string
}

func (i *informed) HasSynced() bool                 { return i.version != "" }
func (i *informed) LastSyncResourceVersion() string { return i.version }

// TestLists: each case lists errors with their times in seconds, and the expected reports with their times.
func TestLists(t *testing.T) {
	t.Parallel()
	forbidden := fmt.Errorf("failed to list apps/v1, Kind=StatefulSet: %w", apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "statefulsets"}, "",
		errors.New(`User "u" cannot list resource "statefulsets" in API group "apps" at the cluster scope`)))
	broken := fmt.Errorf("failed to list a: %w", apierrors.NewInternalError(errors.New("conversion webhook failed")))
	const (
		lacks = `the operator cannot list resource "statefulsets" in API group "apps" at the cluster scope: correct its ClusterRole or Role`
		since = "StatefulSet (apps/v1) since 2026-03-01T12:00:00Z: "
	)
	type event struct {
		at      int
		err     error  // reported by the reflector
		version string // reached by the reflector
		want    []string
	}
	for name, events := range map[string][]event{
		"a right is missing":       {{at: 1, err: forbidden, want: []string{lacks}}, {at: 31, err: forbidden, want: []string{lacks}}},
		"a right is granted":       {{at: 1, err: forbidden, want: []string{lacks}}, {at: 2, version: "7"}},
		"a right is withdrawn":     {{version: "7"}, {at: 60, err: forbidden, want: []string{lacks}}, {at: 60 + 121}},
		"a list fails":             {{err: broken}, {at: 14}, {at: 15, want: []string{"the operator has not been able to list " + since + "Internal error occurred: conversion webhook failed"}}},
		"a list fails for long":    {{err: broken}, {at: 20, err: broken, want: []string{"the operator has not been able to list or watch " + since + "Internal error occurred: conversion webhook failed"}}},
		"a list has no answer":     {{at: 14}, {at: 15, want: []string{"the operator has not been able to list " + since + "the API server does not answer"}}, {at: 16, version: "7"}},
		"a watch fails":            {{version: "7"}, {err: broken}, {at: 15, err: broken, want: []string{"the operator has not been able to list or watch " + since + "Internal error occurred: conversion webhook failed"}}, {at: 16, version: "8"}},
		"a watch fails once":       {{version: "7"}, {err: broken}, {at: 60}},
		"a watch ends":             {{version: "7"}, {err: io.EOF}, {at: 15, err: io.ErrUnexpectedEOF}},
		"a version is too old":     {{version: "7"}, {err: apierrors.NewResourceExpired("too old")}, {at: 15, err: apierrors.NewResourceExpired("too old")}},
		"a watch fails and lasts":  {{version: "7"}, {err: broken}, {at: 200, err: broken}, {at: 214, err: broken}},
		"everything is listed":     {{at: 1, version: "7"}, {at: 100}},
		"it has just been started": {{}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			now := start
			l := NewLists()
			l.now = func() time.Time { return now }
			i := &informed{}
			one := &list{kind: "StatefulSet (apps/v1)", informer: i, created: start}
			l.all = append(l.all, one, one)
			for _, e := range events {
				now = start.Add(time.Duration(e.at) * time.Second)
				if e.version != "" {
					i.version = e.version
				}
				if e.err != nil {
					l.failed(one, e.err)
				}
				assert.DeepEqual(t, l.Problems(), e.want)
			}
		})
	}
}

// If a list of an optional type fails, no problem is reported.
func TestOptionalLists(t *testing.T) {
	t.Parallel()
	l := NewLists()
	var options cache.Options
	l.Observe(&options)
	for _, of := range []client.Object{&corev1.Pod{}, &corev1.Secret{}} {
		options.NewInformer(&toolscache.ListWatch{}, of, 0, nil)
	}
	for _, one := range l.all {
		l.failed(one, apierrors.NewForbidden(schema.GroupResource{Resource: "some"}, "", errors.New("cannot list "+one.kind)))
	}
	l.Optional(&corev1.Secret{})
	assert.DeepEqual(t, l.Problems(), []string{"the operator cannot list v1.Pod: correct its ClusterRole or Role"})
}
