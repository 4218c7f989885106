// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage creates a namespace for each test, and runs operators in it.
package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// Suite holds the state that the tests of a package share.
type Suite struct {
	*cluster.Cluster

	API   client.WithWatch    // has the rights of the cluster's administrator
	Logs  harness.LogBuffer   // logs of all operators
	Lists []client.ObjectList // the kinds that a stage's journal watches
	// Patience returns the limit of waits that have no documented limit. The machine may be busy.
	Patience func() time.Duration
	// Parallel is the number of parallel tests, unless the command line sets the number. 0 means eight, because most tests wait. Suites
	// with real servers under full load run two: their probes need processor time.
	Parallel int

	plugin plugin
}

// Main starts the cluster, runs the tests and stops the cluster.
func (s *Suite) Main(m *testing.M, options cluster.Options, prepare func(context.Context) error) int {
	harness.AtOnce(cmp.Or(s.Parallel, 8))
	ctx := context.Background()
	log := zap.New(zap.WriteTo(&s.Logs), zap.UseDevMode(true))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	var err error
	if s.Cluster, err = within(ctx, func(ctx context.Context) (*cluster.Cluster, error) { return cluster.Start(ctx, options) }); err == nil {
		defer func() {
			if err := s.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			}
		}()
		s.API, err = within(ctx, func(ctx context.Context) (client.WithWatch, error) {
			return harness.Connect(ctx, s.Config, options.Name)
		})
	}
	if err == nil && prepare != nil {
		_, err = within(ctx, func(ctx context.Context) (any, error) { return nil, prepare(ctx) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// startPatience bounds each step of a suite's start. Only a step that hangs needs more time. (hack/cluster.sh starts the clusters of a
// machine one after the other.)
const startPatience = 10 * time.Minute

// within runs a step of a suite's start.
func within[T any](ctx context.Context, step func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	return step(ctx)
}

// MainWithAgent builds the agent, stores its path in agent, and calls Main. Suites whose pods run the agent use it.
func (s *Suite) MainWithAgent(m *testing.M, options cluster.Options, agent *string) int {
	dir, err := os.MkdirTemp("", "d3os-agent-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) // a new folder below /tmp
	*agent = filepath.Join(dir, "agent")
	if _, err := within(context.Background(), func(ctx context.Context) (any, error) { return nil, cluster.BuildAgent(ctx, *agent) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return s.Main(m, options, nil)
}

// The operator's account in config/default.
const accountNamespace, accountName = "d3os-operator-system", "d3os-operator-controller-manager"

// Grant binds the roles of config/rbac to the operator's account. Suites pass it to Main as prepare.
func (s *Suite) Grant(ctx context.Context) error {
	for _, file := range []string{"role.yaml", "ingressclass_role.yaml"} {
		if err := s.grant(ctx, "config/rbac/"+file); err != nil {
			return err
		}
	}
	return nil
}

func (s *Suite) grant(ctx context.Context, file string) error {
	role := &unstructured.Unstructured{}
	if err := harness.ReadYAML(file, &role.Object); err != nil {
		return err
	}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": role.GetAPIVersion(), "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": role.GetName()},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": role.GetKind(), "name": role.GetName()},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": accountNamespace, "name": accountName}},
	}}
	for _, o := range []*unstructured.Unstructured{role, binding} {
		if err := s.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// AsInstalled limits the operator to the rights that Grant binds. Pass it to Start; without it, the operator has all rights.
func AsInstalled(config *rest.Config, _ *manager.Options) {
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + accountNamespace + ":" + accountName}
}

// CreateWith decodes a spec in YAML strictly into the field, and creates the resource.
func (s *Stage) CreateWith(resource client.Object, field any, spec string) {
	s.Helper()
	s.Must(yaml.UnmarshalStrict([]byte(spec), field))
	resource.SetNamespace(s.Namespace)
	s.Must(s.Suite.API.Create(s.Ctx, resource))
}

// Patch patches the spec of a resource (JSON merge patch in YAML).
func (s *Stage) Patch(resource client.Object, spec string) {
	s.Helper()
	patch, err := yaml.YAMLToJSON([]byte("spec: " + spec))
	s.Must(err)
	resource.SetNamespace(s.Namespace)
	s.Must(s.Suite.API.Patch(s.Ctx, resource, client.RawPatch(types.MergePatchType, patch)))
}

// Read reads the resource from the API server.
func (s *Stage) Read(resource client.Object) {
	s.Helper()
	s.Must(s.Suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: resource.GetName()}, resource))
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Unless returns nil if holds is true, and otherwise an error with the given text.
func Unless(holds bool, otherwise string) error {
	if holds {
		return nil
	}
	return errors.New(otherwise)
}

// Eventually waits until the given function returns true. what describes the awaited state. Use Until if the check can name the missing
// state.
func (s *Stage) Eventually(what string, is func() bool) {
	s.Helper()
	s.Until(what, func() error { return Unless(is(), "it is not true yet") })
}

// Pass waits for a duration.
func (s *Stage) Pass(while time.Duration) {
	_ = s.Within(while, func() error { return errors.New("the time has not passed") })
}

// Rests waits until an operator has written no object for a duration.
func (s *Stage) Rests(op *Operator, while time.Duration) {
	s.Helper()
	s.Until("the operator rests", func() error {
		mark := op.Mark()
		wrote := func() error { return Unless(len(op.Since(mark, harness.Sent.WritesObject)) > 0, "not yet") }
		return Unless(s.Within(while, wrote) != nil, "it still writes")
	})
}

// AsksNothing fails the test if the operator sends a request to the API server within a duration.
func (s *Stage) AsksNothing(op *Operator, while time.Duration) {
	s.Helper()
	mark := op.Mark()
	s.Pass(while)
	sent := op.Since(mark, func(r harness.Sent) bool { return r.Reads() || r.Writes() })
	s.Logf("%d requests to the API server in %s at rest", len(sent), while)
	if len(sent) > 0 {
		s.Errorf("at rest: %v", sent)
	}
}

// Events returns the events of the namespace.
func (s *Stage) Events() []eventsv1.Event {
	s.Helper()
	list := &eventsv1.EventList{}
	s.Must(s.Suite.API.List(s.Ctx, list, client.InNamespace(s.Namespace)))
	return list.Items
}

// Story logs a text for each change of an object after a mark of the journal, in order. line returns the text, or "" to omit the object.
func (s *Stage) Story(from int, line func(client.Object) string) {
	last, began := "", time.Time{}
	for _, c := range s.Since(from) {
		text := line(c.Object)
		if text == "" || text == last {
			continue
		}
		if began.IsZero() {
			began = c.At
		}
		s.Logf("%6.1f %s", c.At.Sub(began).Seconds(), text)
		last = text
	}
}

// LastWords logs the last output of the containers in pods that are not ready. log returns the output of a container.
func (s *Stage) LastWords(log func(pod, container string) (string, error)) {
	for _, pod := range harness.Every[*corev1.Pod](s.Journal) {
		if IsReady(pod) {
			continue
		}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			text, _ := log(pod.Name, c.Name)
			lines := strings.Split(strings.TrimSpace(text), "\n")
			s.Logf("%s %s: %s %v\n%s", pod.Name, c.Name, pod.Status.Phase, pod.Annotations, strings.Join(lines[max(0, len(lines)-12):], "\n"))
		}
	}
}
