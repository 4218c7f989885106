// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/apiserver"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/process"
)

// reported is the time limit for the report of a problem by the operator. Only a hang exceeds the limit.
const reported = 5 * time.Minute

var (
	config *rest.Config
	api    client.Client
	logs   harness.LogBuffer
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(&logs)))
	apiserver.Main(m, []string{"../../config/crd/bases"}, func(cfg *rest.Config) (stop func(), err error) {
		scheme := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
			return nil, err
		}
		config = cfg
		api, err = client.New(cfg, client.Options{Scheme: scheme})
		return nil, err
	})
}

// operator is a running operator with a pod in a namespace.
type operator struct {
	*testing.T

	namespace, probes string
}

// ownNetwork reserves addresses that no other process uses.
var ownNetwork = sync.OnceValues(process.ClaimNetwork)

// start starts an operator and creates a pod for it.
func start(t *testing.T, cfg *rest.Config, version string) *operator {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}}
	assert.NilError(t, api.Create(t.Context(), namespace))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "own"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "a"}}},
	}
	assert.NilError(t, api.Create(t.Context(), pod))
	network, err := ownNetwork()
	assert.NilError(t, err)
	probes := network.Next() + ":8081"
	o := harness.ManagerOptions("")
	o.WatchNamespaces, o.ProbeBindAddress, o.Namespace, o.PodName, o.Version = nil, probes, namespace.Name, pod.Name, version
	op, err := harness.Start(context.WithoutCancel(t.Context()), cfg, o)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, op.Stop(reported)) })
	return &operator{T: t, namespace: namespace.Name, probes: probes}
}

// until waits for a condition.
func (o *operator) until(what string, holds func() error) {
	o.Helper()
	var last error
	err := wait.PollUntilContextTimeout(o.Context(), 50*time.Millisecond, reported, true, func(context.Context) (bool, error) {
		last = holds()
		return last == nil, nil
	})
	if err != nil {
		o.Fatalf("%s: %v", what, last)
	}
}

func (o *operator) get(path string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(o.Context(), http.MethodGet, "http://"+o.probes+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// reports checks that the readiness probe, the log and an Event about the operator's pod contain a problem.
func (o *operator) reports(check, problem string) {
	o.Helper()
	o.until("the readiness names it", func() error {
		if code, _, err := o.get("/readyz"); err != nil || code != http.StatusInternalServerError {
			return fmt.Errorf("the probe has code %d: %w", code, err)
		}
		_, body, err := o.get("/readyz/" + check)
		return errors.Join(err, harness.Mentions(body, problem))
	})
	o.until("the log names it", func() error {
		if !strings.Contains(strings.ReplaceAll(logs.String(), `\"`, `"`), problem) {
			return errors.New(problem + " is not in the log")
		}
		return nil
	})
	o.until("an Event names it", func() error {
		events := &eventsv1.EventList{}
		if err := api.List(o.Context(), events, client.InNamespace(o.namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == health.ReasonOperator && e.Regarding.Name == "own" && strings.Contains(e.Note, problem) {
				return nil
			}
		}
		return fmt.Errorf("%d Events, none with it", len(events.Items))
	})
}

func (o *operator) isReady() {
	o.Helper()
	o.until("it is ready", func() error {
		if code, body, err := o.get("/readyz?verbose=1"); err != nil || code != http.StatusOK {
			return fmt.Errorf("the probe has code %d: %s: %w", code, body, err)
		}
		return nil
	})
}

// TestOlderDefinitions: if an installed CRD lacks a field, the operator is not ready until the current CRD is
// installed. The test is not parallel, because the operators of the other tests need all CRDs.
func TestOlderDefinitions(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	assert.NilError(t, api.Get(t.Context(), client.ObjectKey{Name: "redisclusters.redis.middleware.hc.cn"}, crd))
	older := crd.DeepCopy()
	for i := range older.Spec.Versions {
		properties := older.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties
		delete(properties["status"].Properties, "conditions")
		delete(properties["spec"].Properties, "pause")
		storage := properties["spec"].Properties["storage"]
		storage.XValidations = nil // the validation rules of storage read the removed field
		delete(storage.Properties, "size")
		properties["spec"].Properties["storage"] = storage
	}
	assert.NilError(t, api.Update(t.Context(), older))
	o := start(t, config, "9.9.9")
	o.reports("definitions", "the CRD of RedisCluster (redis.middleware.hc.cn/v1alpha1) is older than the operator: it lacks spec.pause, spec.storage.size, status.conditions: install the CRDs of version 9.9.9")
	crd.ResourceVersion = ""
	assert.NilError(t, api.Patch(t.Context(), crd, client.Merge))
	o.isReady()
}

// TestMissingRights: if the operator may not list one of its cached kinds, it reports that kind. With -short, the test
// checks every eighth kind.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	role := &rbacv1.ClusterRole{}
	assert.NilError(t, harness.ReadYAML("config/rbac/role.yaml", role))
	cached := 0
	for _, rule := range role.Rules {
		if !slices.Contains(rule.Verbs, "watch") {
			continue
		}
		for _, group := range rule.APIGroups {
			if group == object.Foreign.Group || group == object.Route.Group {
				continue // the check includes these kinds once the API server serves them
			}
			for _, resource := range rule.Resources {
				cached++
				isLong := cached%8 != 1
				t.Run(resource, func(t *testing.T) {
					t.Parallel()
					if isLong {
						harness.Long(t)
					}
					o := start(t, without(t, role, group, resource), "")
					o.reports("cache", fmt.Sprintf("cannot list resource %q in API group %q at the cluster scope", resource, group))
				})
			}
		}
	}
	assert.Assert(t, cached >= 15, "%d kinds are cached", cached)
}

// without returns the configuration of a user who has the operator's role without the rights to list and watch a resource.
func without(t *testing.T, role *rbacv1.ClusterRole, group, resource string) *rest.Config {
	t.Helper()
	some := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}}
	for _, rule := range role.Rules {
		if slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) {
			rest := rule.DeepCopy()
			rest.Resources = slices.DeleteFunc(rest.Resources, func(r string) bool { return r == resource })
			rule.Resources = []string{resource}
			rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return verb == "list" || verb == "watch" })
			if len(rest.Resources) > 0 {
				some.Rules = append(some.Rules, *rest)
			}
		}
		if len(rule.Verbs) > 0 {
			some.Rules = append(some.Rules, rule)
		}
	}
	assert.NilError(t, api.Create(t.Context(), some))
	assert.NilError(t, api.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: some.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: some.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: some.Name}},
	}))
	cfg := rest.CopyConfig(config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: some.Name, Groups: []string{"system:authenticated"}}
	return cfg
}

// TestListsThatFail: if a list fails or gets no answer for 15 s, the operator reports it. The test is slow. With
// -short, only TestMissingRights and the tests of internal/kube cover this case.
func TestListsThatFail(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		want   string
	}{
		"no answer": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, "the API server does not answer"},
		"unavailable": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("no endpoints")), Request: r,
			}, nil
		}, "the server is currently unable to handle the request"},
		"throttled": {func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("busy")), Request: r,
			}, nil
		}, "CronJob (batch/v1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := rest.CopyConfig(config)
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return harness.Transport(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/cronjobs") {
						return c.answer(r)
					}
					return next.RoundTrip(r)
				})
			})
			o := start(t, cfg, "")
			o.reports("cache", "CronJob (batch/v1) since ")
			o.reports("cache", c.want)
		})
	}
}
