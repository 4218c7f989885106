// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	interval = 100 * time.Millisecond // time between two checks
	unseen   = 30 * time.Second       // time limit for the operator's first look at a new DataService
	healed   = 30 * time.Second       // time limit for the restoration of an object
	gone     = 90 * time.Second       // time limit for the deletion of pods, which may use their grace period
	cleaned  = 100 * time.Second
	// The kubelet waits for 30 s between SIGTERM and SIGKILL.
	interrupted = 20 * time.Second

	// role has the rights of a test in the namespaces that it creates (rbac.yaml).
	role = "d3os-operator-scorecard-trial"
	// label marks the namespaces that scorecard creates. Its value is the namespace of the scorecard run.
	label = "d3os-product.com.d3os/scorecard"
)

// kinds contains all kinds of objects of a DataService's components, including those that controllers create.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "Service"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "batch", Version: "v1", Kind: "CronJob"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

// meta is the metadata of an object. The tests read only this part, so they read no content of a Secret.
type meta = metav1.PartialObjectMetadata

// trial is one example in a separate namespace.
type trial struct {
	client.Client
	test      string
	example   *unstructured.Unstructured
	timeout   time.Duration
	start     time.Time
	namespace string
	lacks     string // the message about an operator that the cluster lacks
	log       strings.Builder
}

// failure is an error with a suggestion for the reader.
type failure struct {
	errors, suggestions []string
}

func (f *failure) Error() string { return strings.Join(f.errors, "; ") }

func (t *trial) logf(format string, args ...any) {
	fmt.Fprintf(&t.log, "%5.1f s  %s\n", time.Since(t.start).Seconds(), fmt.Sprintf(format, args...))
}

// run creates the namespace, runs the test in it, and removes the namespace after any result.
func (t *trial) run(ctx context.Context, scorecard string, test func(context.Context, *trial) error) v1alpha3.TestResult {
	result := v1alpha3.TestResult{Name: t.test + " " + t.example.GetName(), State: v1alpha3.PassState}
	err := t.prepare(ctx, scorecard)
	if err == nil {
		err = test(ctx, t)
	}
	var known *failure
	switch {
	case err == nil:
	case ctx.Err() != nil:
		result.State, result.Errors = v1alpha3.ErrorState, []string{"the test was cancelled before its end"}
	case errors.As(err, &known):
		result.State, result.Errors, result.Suggestions = v1alpha3.FailState, known.errors, known.suggestions
	default:
		result.State, result.Errors = v1alpha3.FailState, []string{err.Error()}
	}
	if err := t.clean(ctx); err != nil {
		result.State, result.Errors = v1alpha3.FailState, append(result.Errors, err.Error())
		result.Suggestions = append(result.Suggestions, "kubectl delete namespace "+t.namespace)
	}
	result.Log = t.log.String()
	return result
}

// prepare creates the namespace, and gives the test its rights in the namespace.
func (t *trial) prepare(ctx context.Context, scorecard string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "scorecard-" + t.test + "-" + t.example.GetName() + "-",
		Labels:       map[string]string{label: scorecard},
	}}
	if err := t.Create(ctx, namespace); err != nil {
		return err
	}
	t.namespace = namespace.Name
	self := &authenticationv1.SelfSubjectReview{}
	if err := t.Create(ctx, self); err != nil {
		return err
	}
	if err := t.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "scorecard"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: self.Status.UserInfo.Username}},
	}); err != nil {
		return err
	}
	// The API server needs a moment to apply a new binding.
	return t.until(ctx, healed, func() (problem error, err error) {
		may := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: t.namespace, Verb: "patch", Group: dsv1.GroupVersion.Group, Resource: "dataservices",
			},
		}}
		if err := t.Create(ctx, may); err != nil {
			return nil, err
		}
		if !may.Status.Allowed {
			return fmt.Errorf("ClusterRole %s does not let the test apply a DataService", role), nil
		}
		return nil, nil
	})
}

// clean removes the namespace with all its objects, and waits for the end, because node ports are unique in the cluster.
func (t *trial) clean(ctx context.Context) error {
	if t.namespace == "" {
		return nil
	}
	limit := cleaned
	if ctx.Err() != nil {
		limit = interrupted
	}
	ctx = context.WithoutCancel(ctx)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}
	if err := t.Delete(ctx, namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	return t.until(ctx, limit, func() (problem error, err error) {
		err = t.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return fmt.Errorf("namespace %s is not gone: %s", t.namespace, conditions(namespace)), err
	})
}

func conditions(namespace *corev1.Namespace) string {
	var messages []string
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			messages = append(messages, c.Message)
		}
	}
	return strings.Join(messages, "; ")
}

// until repeats a check, and returns the last problem after the time limit.
func (t *trial) until(ctx context.Context, limit time.Duration, look func() (problem error, err error)) error {
	var problem error
	err := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(context.Context) (bool, error) {
		var err error
		problem, err = look()
		return problem == nil && err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil && problem != nil {
		t.logf("given up after %s", limit)
		return problem
	}
	return err
}
