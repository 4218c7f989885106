// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// logEvery is how often one refusal is logged while it lasts. A reflector tries again after 0.8 s to 30 s.
	logEvery = time.Minute
	// lasts is how long after its last occurrence a refusal counts: longer than a reflector waits between two tries.
	lasts = 2 * time.Minute
)

// Refusals are the lists and watches that the API server forbids to the operator. A cache that may not list one kind never has
// it, and reconciliations wait for it: without Refusals the operator would do nothing and report nothing.
type Refusals struct {
	mu   sync.Mutex
	seen map[string]*refusal
	now  func() time.Time
}

type refusal struct {
	last, logged time.Time
}

// NewRefusals returns an empty list of refusals.
func NewRefusals() *Refusals { return &Refusals{seen: map[string]*refusal{}, now: time.Now} }

// handle is called by a reflector for each list or watch that fails.
func (r *Refusals) handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	if apierrors.IsForbidden(err) {
		if message, isNew := r.add(err.Error()); isNew {
			ctrl.Log.WithName("cache").Error(err, "the operator lacks a right: it changes nothing that needs this kind until the right is granted", "refused", message)
		}
	}
	toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// add notes a refusal, and reports whether it should be logged.
func (r *Refusals) add(text string) (message string, log bool) {
	// "failed to list *v1.Pod: pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope"
	message = text
	if at := strings.Index(text, "cannot "); at >= 0 {
		message = text[at:]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	one := r.seen[message]
	if one == nil || now.Sub(one.last) > lasts {
		one = &refusal{}
		r.seen[message] = one
	}
	one.last = now
	if log = now.Sub(one.logged) >= logEvery; log {
		one.logged = now
	}
	return message, log
}

// Check fails while the API server forbids the operator to list or watch a kind. It is a check of the operator's readiness.
func (r *Refusals) Check(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var now []string
	for message, one := range r.seen {
		if r.now().Sub(one.last) <= lasts {
			now = append(now, message)
		}
	}
	if len(now) == 0 {
		return nil
	}
	slices.Sort(now)
	return fmt.Errorf("the operator %s: correct its ClusterRole or Role", strings.Join(now, "; it "))
}
