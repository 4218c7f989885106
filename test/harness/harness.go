// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness contains code that is common to all suites on a simulated cluster.
package harness

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
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

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
)

// Connect returns a client for config, installs the CRDs with owner as field manager, and waits until the API server serves them.
func Connect(ctx context.Context, config *rest.Config, owner string) (client.WithWatch, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return api, InstallFrom(ctx, api, cluster.Root(), owner)
}

// InstallFrom calls Install for each CRD in source, a folder with the repository's files.
func InstallFrom(ctx context.Context, api client.Client, source, owner string) error {
	files, err := filepath.Glob(filepath.Join(source, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("install CRDs: %s has none", source)
	}
	for _, file := range files {
		definition := &unstructured.Unstructured{}
		if err := readYAML(file, &definition.Object); err != nil {
			return err
		}
		if err := Install(ctx, api, definition, owner); err != nil {
			return fmt.Errorf("install %s: %w", file, err)
		}
	}
	return nil
}

// servedWithin bounds the time until the API server serves a CRD. The API server needs more time only if it hangs.
const servedWithin = 5 * time.Minute

// Install applies a CRD with owner as field manager, and waits until the API server serves it.
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
	return readYAML(filepath.Join(cluster.Root(), path), into)
}

func readYAML(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// ManagerOptions returns the options of an operator that watches one namespace, and shares this process with other operators.
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

// LogBuffer stores the log of all operators.
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

// Difference returns the difference of two lists (-want +got) without regard to their order.
func Difference(got, want []string) string {
	return cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
}

// FinalError is an error that waiting cannot resolve: Within returns it immediately.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FinalError) Unwrap() error { return e.Err }

// Within waits until holds returns nil. When the time is up, it returns the last error of holds. It calls holds when the channel from moved
// closes. It also calls holds at an interval, because the channel does not report every change.
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

// AtOnce sets the number of parallel tests of this process, unless the command line sets it.
func AtOnce(tests int) {
	if !Given("test.parallel") {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // Set accepts every integer
	}
}

// Given reports whether the command line sets a flag.
func Given(name string) bool {
	if !flag.Parsed() {
		flag.Parse()
	}
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Long skips a test in `make test` (go test -short) and in .ci/run. `make verify` runs the test. Such a test takes a minute or more of
// processor time, and a shorter test of its package covers the same code.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test: run make verify, or go test without -short")
	}
}

// FullForm skips a test unless full is true, as in make verify FORM=long: the test takes too long for the short form.
func FullForm(t *testing.T, full bool) {
	t.Helper()
	if !full {
		t.Skip("a very long test: run make verify FORM=long")
	}
}

// Bound returns the time limit of an operation. In a full run (make suite-etcd, make suite-redis), no other process uses the machine, and
// the limit is the promised time. In make test, other packages use the same cores, so the limit is five times as long. For example, an etcd
// with one member got no processor time, and accepted no write for 4.3 s.
func Bound(promised time.Duration, full bool) time.Duration {
	if full {
		return promised
	}
	return 5 * promised
}

// News lets goroutines wait for the next event.
type News struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next returns a channel that the next Raise closes.
func (n *News) Next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

// Raise wakes all waiting goroutines.
func (n *News) Raise() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}
