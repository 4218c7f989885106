// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"d3os.com/d3os-operator/internal/object"
)

// NotServedError reports that the API server does not serve a kind, because its CRD is not installed.
type NotServedError struct{ Kind schema.GroupVersionKind }

func (e *NotServedError) Error() string {
	if e.Kind == object.Foreign {
		return fmt.Sprintf("the API server does not serve %s of %s: install MongoDB's operator for Kubernetes (its releases before 0.6 serve mongodb.com/v1, which is not supported)", e.Kind.Kind, e.Kind.GroupVersion())
	}
	return fmt.Sprintf("the API server does not serve %s of %s: install its CRD", e.Kind.Kind, e.Kind.GroupVersion())
}

// isNotServed reports whether a read failed because the API server does not serve the kind now, or did not serve it when the cache was set
// up.
func isNotServed(err error) bool {
	var notCached *cache.ErrResourceNotCached
	return meta.IsNoMatchError(err) || errors.As(err, &notCached)
}

// watched contains the kinds of object.Optional that the cache watches. For any other kind, a list request would query the API server for the CRD.
type watched struct{ kinds sync.Map }

func (w *watched) has(gvk schema.GroupVersionKind) bool {
	_, found := w.kinds.Load(gvk)
	return found
}

// AddWatched adds a kind of object.Optional to the kinds that Owned lists, and that Get reads from the cache. Call it after the cache watches
// the kind.
func (a *Applier) AddWatched(gvk schema.GroupVersionKind) { a.watched.kinds.Store(gvk, true) }

// wanted records the planned kinds that the cache does not watch.
type wanted struct {
	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]chan struct{}
}

func newWanted() *wanted { return &wanted{kinds: map[schema.GroupVersionKind]chan struct{}{}} }

// channel returns the channel of a kind. The first call of add for the kind closes the channel.
func (w *wanted) channel(gvk schema.GroupVersionKind) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kinds[gvk] == nil {
		w.kinds[gvk] = make(chan struct{})
	}
	return w.kinds[gvk]
}

func (w *wanted) add(gvk schema.GroupVersionKind) {
	c := w.channel(gvk)
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// Wanted returns a channel that closes when a plan contains an object of the kind, and the cache does not watch the kind.
func (a *Applier) Wanted(gvk schema.GroupVersionKind) <-chan struct{} { return a.wanted.channel(gvk) }
