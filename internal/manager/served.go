// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/object"
)

const (
	// resourcePatience limits the wait until the API server serves DataServices. After that time the process ends, and the kubelet restarts it.
	resourcePatience = 30 * time.Second
	resourcePoll     = 200 * time.Millisecond
	// servedPoll is the interval between checks for a kind that the API server does not serve yet.
	servedPoll = 5 * time.Second
	// optionalPoll is the interval between checks for a kind that most clusters never serve; see Options.OptionalPoll.
	optionalPoll = time.Minute
)

// isServed reports whether the API server serves a kind, that is, whether the CRD is installed.
func isServed(mapper meta.RESTMapper, gvk schema.GroupVersionKind) bool {
	_, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err == nil
}

// awaitServed waits until the API server serves a kind, because the CRD may be created at the same time as this process.
func awaitServed(ctx context.Context, mapper meta.RESTMapper, gvk schema.GroupVersionKind) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, resourcePoll, resourcePatience, true, func(context.Context) (bool, error) {
		_, last = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server to serve %s (is the CRD installed?): %w", gvk, errors.Join(last, err))
	}
	return nil
}

// crdWaiter starts the controller or the watch of a kind when the API server serves the kind. A missing CRD is no failure: the kind is then
// not used.
type crdWaiter struct {
	mapper meta.RESTMapper
	gvk    schema.GroupVersionKind
	poll   time.Duration // the interval between checks
	start  func(context.Context) error
	wanted <-chan struct{} // closed when a plan uses the kind; nil: poll from the start
	// permitted reports whether the operator may watch the kind. It is called when the API server serves the kind. nil means always.
	permitted func(context.Context) bool
}

// Start polls until the API server serves the kind. For a foreign kind, which most clusters never use, polling begins when a plan uses the
// kind.
func (l *crdWaiter) Start(ctx context.Context) error {
	if l.wanted != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wanted:
		}
	}
	log := ctrl.Log.WithValues("kind", l.gvk.Kind, "group", l.gvk.Group)
	if l.permitted == nil {
		log.Info("the API server does not serve this kind: its resources are reconciled as soon as its CRD is installed")
	}
	err := wait.PollUntilContextCancel(ctx, l.poll, true, func(ctx context.Context) (bool, error) {
		return isServed(l.mapper, l.gvk) && (l.permitted == nil || l.permitted(ctx)), nil
	})
	if err != nil {
		return nil //nolint:nilerr // the process ends
	}
	log.Info("the API server serves this kind now")
	return l.start(ctx)
}

// NeedLeaderElection returns false, so that a standby has a full cache of this kind when it becomes leader.
func (*crdWaiter) NeedLeaderElection() bool { return false }

// mayWatch reports whether the operator has the rights to list and watch a kind in each of the given namespaces; none means the whole cluster.
func (op *Operator) mayWatch(ctx context.Context, gvk schema.GroupVersionKind, namespaces ...string) bool {
	resource := object.ResourceOf(gvk)
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: resource.Group, Resource: resource.Resource,
			}}}
			if err := op.Parts.Live.Create(ctx, review); err != nil || !review.Status.Allowed {
				return false
			}
		}
	}
	return true
}
