// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgradeable tells the Operator Lifecycle Manager (OLM) when it may replace this
// operator by another version: not while a DataService is being rolled out. It does so in the
// OperatorCondition that OLM has made for the operator, and does nothing where OLM does not run it.
// It imports the API of DataServices, because their status says whether one is being rolled out.
package upgradeable

import (
	"context"
	"fmt"
	"os"
	"time"

	apiv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// No RBAC marker: for each operator OLM makes a Role for its OperatorCondition alone (get, update
// and patch), and binds it to the operator's service account.

// olmVariable is set by OLM, and by nobody else, to the name of the OperatorCondition.
const olmVariable = "OPERATOR_CONDITION_NAME"

const (
	// quiet is how long there must be no rollout before an upgrade is allowed: one rollout often
	// follows another, and an operator that has just started has not looked at everything yet.
	quiet = 5 * time.Second
	// renameEvery is how often the message may change while upgrades are held back.
	renameEvery = 30 * time.Second

	retryFirst   = time.Second
	retryLongest = time.Minute
)

// reconciler keeps the condition Upgradeable. It has one request only, and one worker.
type reconciler struct {
	cache     client.Reader
	condition conditions.Condition

	rollouts   rollouts
	quietSince time.Time         // zero while there are rollouts
	known      *metav1.Condition // as it is in the OperatorCondition; nil before the first look
	written    time.Time
}

func newReconciler(cache client.Reader, condition conditions.Condition) *reconciler {
	return &reconciler{cache: cache, condition: condition, rollouts: rollouts{}}
}

// SetupWithManager makes the leader keep the condition, if OLM runs this operator.
func SetupWithManager(mgr ctrl.Manager, skipNameValidation bool) error {
	if os.Getenv(olmVariable) == "" {
		return nil
	}
	scheme := runtime.NewScheme()
	if err := apiv2.AddToScheme(scheme); err != nil {
		return fmt.Errorf("build the scheme of OperatorConditions: %w", err)
	}
	// Not the manager's: that reads from the cache, which would need rights to list and watch.
	c, err := client.New(mgr.GetConfig(), client.Options{Scheme: scheme, HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("set up the client of the OperatorCondition: %w", err)
	}
	condition, err := conditions.InClusterFactory{Client: c}.NewCondition(apiv2.ConditionType(apiv2.Upgradeable))
	if err != nil {
		mgr.GetLogger().Error(err, "the OperatorCondition cannot be used, so OLM may upgrade the operator in the middle of a rollout; "+
			"check that "+olmVariable+" names it and that the operator may read and update it")
		return nil
	}
	everything := func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }
	// There is something to say also when there is no DataService.
	once := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).Named("upgradeable").
		Watches(&dsv1.DataService{}, handler.EnqueueRequestsFromMapFunc(everything), builder.WithPredicates(startedOrEnded())).
		WatchesRawSource(once).
		WithOptions(controller.Options{
			RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLongest),
			SkipNameValidation: &skipNameValidation,
		}).
		Complete(newReconciler(mgr.GetCache(), condition))
}

// startedOrEnded lets through DataServices whose rollout has begun or is over.
func startedOrEnded() predicate.Predicate {
	is := func(object client.Object) bool {
		ds, ok := object.(*dsv1.DataService)
		return ok && inProgress(ds)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return is(e.ObjectOld) != is(e.ObjectNew) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return is(e.Object) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Reconcile writes the condition if it is another than OLM knows. An error, such as that of an
// OperatorCondition which is not there, is logged and tried again; nothing else depends on it.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &dsv1.DataServiceList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list DataServices: %w", err)
	}
	now := time.Now()
	names, until := r.rollouts.look(list.Items, now)
	next := conditionFor(names)
	if wait := r.hold(next, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.tell(ctx, next); err != nil {
		return reconcile.Result{}, err
	}
	if until.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: until.Sub(now)}, nil
}

// hold returns how long a condition is to be kept back, so that it is not written for every
// step. That upgrades have to wait is said at once.
func (r *reconciler) hold(next metav1.Condition, now time.Time) time.Duration {
	if next.Status == metav1.ConditionFalse {
		r.quietSince = time.Time{}
		if r.known != nil && r.known.Status == next.Status && r.known.Message != next.Message {
			return r.written.Add(renameEvery).Sub(now)
		}
		return 0
	}
	if r.quietSince.IsZero() {
		r.quietSince = now
	}
	return r.quietSince.Add(quiet).Sub(now)
}

func (r *reconciler) tell(ctx context.Context, next metav1.Condition) error {
	if r.known == nil {
		// An error here says too little (there is none for a condition not set yet): Set says it.
		r.known, _ = r.condition.Get(ctx)
	}
	if r.known != nil && r.known.Status == next.Status && r.known.Reason == next.Reason && r.known.Message == next.Message {
		return nil
	}
	err := r.condition.Set(ctx, next.Status, conditions.WithReason(next.Reason), conditions.WithMessage(next.Message))
	if err != nil {
		return fmt.Errorf("set Upgradeable in the OperatorCondition (until that succeeds, OLM may upgrade in the middle of a rollout): %w", err)
	}
	r.known, r.written = &next, time.Now()
	return nil
}
