// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness holds what the suites on a simulated cluster share.
package harness

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
)

// Connect returns a client as the configuration's user, installs the CRDs in that owner's name
// and waits until they are served.
func Connect(ctx context.Context, config *rest.Config, owner string) (client.WithWatch, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		definition := &unstructured.Unstructured{}
		if err := ReadYAML("config/crd/"+file, &definition.Object); err != nil {
			return nil, err
		}
		if err := Install(ctx, api, definition, owner); err != nil {
			return nil, fmt.Errorf("install %s: %w", file, err)
		}
	}
	return api, nil
}

// servedWithin bounds the time until a CRD is served. Only a hang exhausts it.
const servedWithin = 5 * time.Minute

// Install installs a CRD in an owner's name and waits until it is served.
func Install(ctx context.Context, api client.Client, definition *unstructured.Unstructured, owner string) error {
	if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(definition), client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return err
	}
	typed := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, typed); err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(typed.Spec.Group + "/" + typed.Spec.Versions[0].Name)
	list.SetKind(typed.Spec.Names.ListKind)
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, servedWithin, true, func(ctx context.Context) (bool, error) {
		return api.List(ctx, list, client.InNamespace(corev1.NamespaceDefault)) == nil, nil
	})
}

// ReadYAML reads a file of the repository.
func ReadYAML(path string, into any) error {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), path))
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// ManagerOptions returns the options of an operator that runs in this process with others, for one namespace.
func ManagerOptions(namespace string) manager.Options {
	return manager.Options{
		WatchNamespaces:         []string{namespace},
		MaxConcurrentReconciles: 8,
		ResyncPeriod:            10 * time.Hour,
		OptionalPoll:            10 * time.Hour,
		MetricsBindAddress:      "0",
		ProbeBindAddress:        "0",
		PprofBindAddress:        "0",
		SkipNameValidation:      true,
		Version:                 version.Version,
	}
}

// LogBuffer keeps the operators' log.
type LogBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// Difference returns the difference of two lists (-want +got), in any order.
func Difference(got, want []string) string {
	return cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
}

// FinalError is an error that waiting cannot heal: Within returns it immediately.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FinalError) Unwrap() error { return e.Err }

// Within waits until a condition holds, and returns its last error when the time is up. It checks when the channel closes that moved
// returned before the last check, and at an interval for changes that the channel does not report.
func Within(limit, often time.Duration, moved func() <-chan struct{}, holds func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(often)
	defer again.Stop()
	for {
		next := moved()
		err := holds()
		var final *FinalError
		if err == nil || errors.As(err, &final) {
			return err
		}
		select {
		case <-next:
		case <-again.C:
		case <-deadline.C:
			return fmt.Errorf("not within %s: %w", limit, err)
		}
	}
}

// AtOnce sets the number of parallel tests of this process, unless the command line does.
func AtOnce(tests int) {
	if !Given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // the flag takes any number
	}
}

// Given reports whether a flag was given.
func Given(name string) bool {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Long marks a test that `make test` (go test -short), and with it .ci/run, leaves to `make verify`: the processor time of a
// minute and more goes into it, and a shorter test of its package shows that the same parts work together.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: make verify runs it, and go test without -short")
	}
}

// Bound returns how long something may take. A figure that is promised holds where a suite has the machine to itself (full:
// make suite-etcd or redis). make test shares its cores with other packages and with whatever else runs, and allows five times
// as much: nothing was written to an etcd of one member for 4.3 s there, because that member did not get to answer.
func Bound(promised time.Duration, full bool) time.Duration {
	if full {
		return promised
	}
	return 5 * promised
}

// News wakes all goroutines that wait for news.
type News struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next is closed at the next Raise.
func (n *News) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

// Raise wakes those who wait.
func (n *News) Raise() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}
