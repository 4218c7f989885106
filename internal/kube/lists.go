// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

const (
	// persists is the time after which a list that fails or gets no answer is a problem. A forbidden list is a problem immediately.
	persists = 15 * time.Second
	// lasts is the time without an error after which a problem counts as ended. A reflector waits at most 30 s between two attempts.
	lasts = 2 * time.Minute
)

// Lists records the lists and watches of the operator's caches. Reconciliations wait until the cache has listed every
// kind. If the list of one kind fails, the operator does nothing, and only Lists reports the reason.
type Lists struct {
	mu  sync.Mutex
	all []*list
	now func() time.Time
	// optional are the types of resources that the operator does not require.
	optional []reflect.Type
}

// list is the state of one informer.
type list struct {
	kind     string
	of       reflect.Type
	informer interface {
		HasSynced() bool
		LastSyncResourceVersion() string
	}
	created time.Time
	// err is the last error, or nil before the first error. last is its time, and version the informer's version at that time.
	err         error
	first, last time.Time
	version     string
}

// NewLists returns an empty record.
func NewLists() *Lists { return &Lists{now: time.Now} }

// Observe adds the lists of a cache with these options to the record.
func (l *Lists) Observe(options *cache.Options) {
	options.NewInformer = func(lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		informer := toolscache.NewSharedIndexInformer(lw, of, resync, indexers)
		one := &list{kind: nameOf(of), of: reflect.TypeOf(of), informer: informer, created: l.now()}
		// SetWatchErrorHandlerWithContext returns an error only if the informer has started already.
		_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *toolscache.Reflector, err error) {
			l.failed(one, err)
			toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, one)
		return informer
	}
}

// Optional excludes a type from the problems: users may remove its CRD and the rights to it while the operator runs.
func (l *Lists) Optional(of runtime.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.optional = append(l.optional, reflect.TypeOf(of))
}

// nameOf returns the kind and the API version of an object, or its Go type.
func nameOf(of runtime.Object) string {
	version, kind := of.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if kind == "" {
		return strings.TrimPrefix(reflect.TypeOf(of).String(), "*")
	}
	return kind + " (" + version + ")"
}

// failed records an error of a list. The regular end of a watch is not an error.
func (l *Lists) failed(one *list, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if one.err == nil || now.Sub(one.last) > lasts {
		one.first = now
	}
	one.err, one.last, one.version = err, now, one.informer.LastSyncResourceVersion()
}

// Problems returns a sentence for each list that fails, in order. A sentence does not change until its cause changes.
func (l *Lists) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, one := range l.all {
		if problem := one.problem(l.now()); problem != "" && !slices.Contains(l.optional, one.of) {
			found = append(found, problem)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (l *list) problem(now time.Time) string {
	const since = " since "
	isCurrent := l.err != nil && now.Sub(l.last) <= lasts && l.informer.LastSyncResourceVersion() == l.version
	switch {
	case isCurrent && apierrors.IsForbidden(l.err):
		return "the operator " + essence(l.err) + ": correct its ClusterRole or Role"
	case isCurrent && l.last.Sub(l.first) >= persists:
		return "the operator has not been able to list or watch " + l.kind + since + l.first.UTC().Format(time.RFC3339) + ": " + essence(l.err)
	case l.informer.HasSynced() || now.Sub(l.created) < persists:
		return ""
	case isCurrent:
		return "the operator has not been able to list " + l.kind + since + l.created.UTC().Format(time.RFC3339) + ": " + essence(l.err)
	}
	return "the operator has not been able to list " + l.kind + since + l.created.UTC().Format(time.RFC3339) + ": the API server does not answer"
}

// essence returns an error of a reflector without the text that precedes the cause.
func essence(err error) string {
	// "failed to list *v1.Pod: pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"
	text := err.Error()
	if at := strings.Index(text, "cannot "); at >= 0 && apierrors.IsForbidden(err) {
		return text[at:]
	}
	if list, cause, found := strings.Cut(text, ": "); found && strings.HasPrefix(list, "failed to list ") {
		return cause
	}
	return text
}
