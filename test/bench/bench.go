// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// bench is what all sections share.
type bench struct {
	flags
	cluster *cluster.Cluster
	version string // of Kubernetes
	scheme  *kruntime.Scheme
	client  client.Client // not cached, not counted
	report  *report
	journal *journal
	fail    context.CancelCauseFunc

	sample   *dsv1.DataService
	objects  int      // of the sample, credentials and the record of the database's data included
	services *tracker // every DataService
	spaces   *tracker // the benchmark's namespaces
	accounts *tracker // every namespace's default service account, which pods need
	fleet    []*dsv1.DataService
}

// newBench connects to the cluster and installs the CRD.
func newBench(ctx context.Context, fail context.CancelCauseFunc, c *cluster.Cluster, f flags) (*bench, error) {
	b := &bench{flags: f, cluster: c, report: &report{out: os.Stdout}, journal: &journal{}, fail: fail}
	ctrl.SetLogger(b.journal.logger())
	var err error
	if b.scheme, err = manager.Scheme(); err != nil {
		return nil, err
	}
	if b.sample, err = readSample(); err != nil {
		return nil, err
	}
	if b.client, err = harness.Connect(ctx, b.config(), "bench"); err != nil {
		return nil, err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(b.config())
	if err != nil {
		return nil, err
	}
	server, err := asked.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	b.version = server.GitVersion
	objects, err := preview.Objects(b.sample, b.version)
	if err != nil {
		return nil, err
	}
	b.objects = len(objects) + dataRecords
	return b, b.watch(ctx)
}

func readSample() (*dsv1.DataService, error) {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), harness.SampleFile))
	if err != nil {
		return nil, err
	}
	ds, err := preview.Parse(data)
	if err != nil {
		return nil, err
	}
	ds.Namespace = "default"
	return ds, nil
}

// watch starts the trackers and refuses a cluster that somebody else works with.
func (b *bench) watch(ctx context.Context) error {
	mine := labels.SelectorFromSet(labels.Set{label: "true"})
	for _, t := range []struct {
		tracker **tracker
		kind    string
		object  client.Object
		by      cache.ByObject
	}{
		{&b.services, dsv1.Kind, &dsv1.DataService{}, cache.ByObject{}},
		{&b.spaces, "Namespace", &corev1.Namespace{}, cache.ByObject{Label: mine}},
		{&b.accounts, "ServiceAccount", &corev1.ServiceAccount{}, cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", "default")}},
	} {
		var err error
		options := cache.Options{Scheme: b.scheme, ByObject: map[client.Object]cache.ByObject{t.object: t.by}}
		if *t.tracker, err = startTracker(ctx, b.config(), options, map[string]client.Object{t.kind: t.object}); err != nil {
			return err
		}
	}
	if err := b.removeAll(ctx); err != nil { // of a run that was killed
		return err
	}
	b.services.mu.Lock()
	defer b.services.mu.Unlock()
	for k := range b.services.objects {
		return fmt.Errorf("%s exists: the benchmark wants a cluster without DataServices", k)
	}
	return nil
}

// config is the cluster's, with connections of its own.
func (b *bench) config() *rest.Config {
	config := rest.CopyConfig(b.cluster.Config)
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

// cleanUp leaves a cluster of the user's as it was, but for the CRD.
func (b *bench) cleanUp(ctx context.Context) error {
	if b.cluster.Own {
		return nil
	}
	// The trackers have ended with the run.
	return b.deleteNamespaces(ctx)
}

func (b *bench) printFacts() {
	t := b.report.table("MACHINE", "")
	t.row("cores", fmt.Sprintf("%d x %s, load %s", runtime.NumCPU(), fact("/proc/cpuinfo", "model name"), firstWord("/proc/loadavg")))
	t.row("memory", fact("/proc/meminfo", "MemTotal"))
	t.row("Go", fmt.Sprintf("%s, GOMAXPROCS %d", runtime.Version(), runtime.GOMAXPROCS(0)))
	where := "of KUBECONFIG"
	if b.cluster.Own {
		where = "simulated pods, control plane on this machine"
	}
	t.row("Kubernetes", b.version+", "+where)
	t.row("operator", version.Version)
	t.row("one DataService", fmt.Sprintf("the sample: %d objects", b.objects))
	t.row("many DataServices", fmt.Sprint(b.most()))
	t.flush()
}

// fact is the value of the first line "name: value" of a file.
func fact(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return "?"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if found, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(found) == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}

func firstWord(file string) string {
	data, _ := os.ReadFile(file)
	word, _, _ := strings.Cut(string(data), " ")
	return word
}

// cpuSeconds is what this process has used.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
