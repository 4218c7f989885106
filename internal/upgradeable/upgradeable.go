// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgradeable sets the condition Upgradeable for the Operator Lifecycle Manager (OLM): while a DataService is being rolled out, OLM
// must not install another version of the operator. The condition is in the OperatorCondition that OLM created. Without OLM, the package
// does nothing. It imports the API of DataServices to read their status.
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
	"sigs.k8s.io/controller-runtime/pkg/source"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// No RBAC marker: OLM creates a Role for each operator's OperatorCondition (get, update and patch), and binds it to the operator's service
// account.

// olmVariable holds the name of the OperatorCondition. Only OLM sets it.
const olmVariable = "OPERATOR_CONDITION_NAME"

const (
	// quiet is the time without a rollout after which an upgrade is allowed. It is not 0, because rollouts often follow
	// one another, and a restarted operator has not reconciled all resources yet.
	quiet = 5 * time.Second
	// renameEvery is the minimum time between two changes of the message while upgrades are blocked.
	renameEvery = 30 * time.Second

	retryFirst   = time.Second
	retryLongest = time.Minute
)

// reconciler sets the condition Upgradeable. It has a single request and one worker.
type reconciler struct {
	cache     client.Reader
	condition conditions.Condition

	rollouts   rollouts
	quietSince time.Time         // zero while there are rollouts
	known      *metav1.Condition // as in the OperatorCondition; nil before the first read
	written    time.Time
}

func newReconciler(cache client.Reader, condition conditions.Condition) *reconciler {
	return &reconciler{cache: cache, condition: condition, rollouts: rollouts{}}
}

// SetupWithManager makes the leader set the condition, if OLM runs this operator.
func SetupWithManager(mgr ctrl.Manager, skipNameValidation bool) error {
	if os.Getenv(olmVariable) == "" {
		return nil
	}
	scheme := runtime.NewScheme()
	if err := apiv2.AddToScheme(scheme); err != nil {
		return fmt.Errorf("build the scheme of OperatorConditions: %w", err)
	}
	// The manager's client is not used: it reads from the cache, and the cache needs rights to list and watch, which OLM does not grant.
	c, err := client.New(mgr.GetConfig(), client.Options{Scheme: scheme, HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("set up the client of the OperatorCondition: %w", err)
	}
	condition, err := conditions.InClusterFactory{Client: c}.NewCondition(apiv2.ConditionType(apiv2.Upgradeable))
	if err != nil {
		mgr.GetLogger().Error(err, "the OperatorCondition cannot be used, so OLM may upgrade the operator in the middle of a rollout; "+
			"check that "+olmVariable+" names the OperatorCondition, and that the operator may read and update the OperatorCondition")
		return nil
	}
	everything := func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{{}} }
	// The condition is also set if no DataService exists.
	once := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queue.Add(ctrl.Request{})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).Named("upgradeable").
		Watches(&dsv1.DataService{}, handler.EnqueueRequestsFromMapFunc(everything), builder.WithPredicates(startedOrEnded())).
		WatchesRawSource(once).
		WithOptions(controller.Options{
			RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryFirst, retryLongest),
			SkipNameValidation: &skipNameValidation,
		}).
		Complete(newReconciler(mgr.GetCache(), condition))
}

// startedOrEnded selects the events in which the rollout of a DataService starts or ends.
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

// Reconcile writes the condition if it differs from the condition in the OperatorCondition. An error, such as a missing OperatorCondition,
// is logged and retried; nothing else depends on it.
func (r *reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	list := &dsv1.DataServiceList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list DataServices: %w", err)
	}
	now := time.Now()
	names, until := r.rollouts.look(list.Items, now)
	next := conditionFor(names)
	if wait := r.hold(next, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.tell(ctx, next); err != nil {
		return ctrl.Result{}, err
	}
	if until.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: until.Sub(now)}, nil
}

// hold returns the delay before a condition is written. A condition that blocks upgrades is written immediately. Other
// writes are delayed, so that rollouts that follow one another cause few writes.
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
		// The error is ignored: Get also returns an error for a condition that is not set yet, and Set returns any other error.
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
