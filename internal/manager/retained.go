// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/version"
)

const (
	// retainedPerSecond bounds the total write rate of these controllers: after an upgrade, every retained object needs one write.
	retainedPerSecond = 10
	// retainedAgain is the time after which an object that has lost its annotations is annotated again.
	retainedAgain = time.Minute
	// retainedKnown bounds the number of objects whose last write is remembered, at about 100 bytes each.
	retainedKnown = 4096
)

// retainedKinds lists the kinds of the objects that outlive their resource.
var retainedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Secret"},
	object.ConfigMapKind,
	object.ClaimKind,
}

// retention annotates objects that outlive their resource, so that Argo CD and Flux do not delete them. New objects get
// the annotations when they are created. Three sorts of older objects are annotated once: claims whose StatefulSet
// lacks the annotations, objects of earlier versions of the operator, and objects that a resource no longer owns.
type retention struct {
	client  client.Client // reads come from the cache
	version string        // version of the operator
	gvk     schema.GroupVersionKind
	pace    flowcontrol.RateLimiter
	written *lru.Cache // UID -> time of the last write
}

// setupRetention makes the leader annotate retained objects.
func setupRetention(mgr ctrl.Manager, c client.Client, version string, skipNameValidation bool) error {
	pace := flowcontrol.NewTokenBucketRateLimiter(retainedPerSecond, retainedPerSecond)
	for _, gvk := range retainedKinds {
		r := &retention{client: c, version: version, gvk: gvk, pace: pace, written: lru.New(retainedKnown)}
		lacking := predicate.NewPredicateFuncs(r.lacks)
		err := ctrl.NewControllerManagedBy(mgr).Named("retained-"+strings.ToLower(gvk.Kind)).
			Watches(object.Empty(gvk), &handler.EnqueueRequestForObject{}, builder.WithPredicates(lacking)).
			WithOptions(controller.Options{MaxConcurrentReconciles: 1, SkipNameValidation: &skipNameValidation}).
			Complete(r)
		if err != nil {
			return fmt.Errorf("set up the controller of retained %ss: %w", gvk.Kind, err)
		}
	}
	return nil
}

// lacks reports whether an object is retained and lacks the annotations. It returns false for objects that a newer operator wrote.
func (r *retention) lacks(o client.Object) bool {
	return object.IsRetained(o, r.gvk == object.ClaimKind) && object.LacksNoPrune(o) && o.GetDeletionTimestamp() == nil &&
		!version.Newer(o.GetAnnotations()[object.AnnotationWriter], r.version)
}

// Reconcile annotates one object.
func (r *retention) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	live := object.Empty(r.gvk)
	if err := r.client.Get(ctx, request.NamespacedName, live); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.lacks(live) {
		return ctrl.Result{}, nil
	}
	if last, ok := r.written.Get(live.GetUID()); ok {
		if wait := retainedAgain - time.Since(last.(time.Time)); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if err := r.pace.Wait(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("wait for the rate limit before %s %s is annotated: %w", r.gvk.Kind, request, err)
	}
	if err := r.annotate(ctx, live); err != nil {
		return ctrl.Result{}, err
	}
	r.written.Add(live.GetUID(), time.Now())
	return ctrl.Result{}, nil
}

func (r *retention) annotate(ctx context.Context, live *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         live.GetUID(), // the write fails with Conflict if the UID differs
		"annotations": object.WithoutPrune(nil, live.GetAnnotations()),
	}})
	if err != nil {
		return fmt.Errorf("annotate %s %s/%s: %w", r.gvk.Kind, live.GetNamespace(), live.GetName(), err)
	}
	err = r.client.Patch(ctx, live.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotate %s %s/%s so that GitOps tools do not delete it: %w", r.gvk.Kind, live.GetNamespace(), live.GetName(), err)
	}
	return nil
}
