// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/process"
)

// bench is what all sections share.
type bench struct {
	flags
	cluster *cluster.Cluster
	version string        // of Kubernetes
	client  client.Client // not cached, not counted
	report  *report

	dir     string           // with the operator's program
	memory  float64          // what config/manager gives the operator, MiB
	network *process.Network // the operators' addresses

	sample   *dsv1.DataService
	objects  int      // of the sample, credentials and the record of the database's data included
	services *tracker // every DataService
	fleet    []*dsv1.DataService
}

// newBench builds the operator, connects to the cluster and installs the CRDs.
func newBench(ctx context.Context, c *cluster.Cluster, f flags) (*bench, error) {
	ctrl.SetLogger(logr.Discard()) // of the benchmark's own watches
	b := &bench{flags: f, cluster: c, report: &report{out: os.Stdout}}
	var err error
	if b.dir, err = os.MkdirTemp("", "d3os-bench-"); err == nil {
		err = b.setUp(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	return b, nil
}

func (b *bench) setUp(ctx context.Context) error {
	if _, err := harness.Build(ctx, b.dir); err != nil {
		return err
	}
	var deployment appsv1.Deployment
	if err := harness.ReadYAML("config/manager/manager.yaml", &deployment); err != nil {
		return err
	}
	b.memory = float64(deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()) / (1 << 20)
	var err error
	if b.network, err = process.ClaimNetwork(); err != nil {
		return err
	}
	if b.client, err = harness.Connect(ctx, b.config(), "bench"); err != nil {
		return err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(b.config())
	if err != nil {
		return err
	}
	server, err := asked.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	b.version = server.GitVersion
	sample, err := os.ReadFile(filepath.Join(cluster.Root(), harness.SampleFile))
	if err != nil {
		return err
	}
	if b.sample, err = preview.Parse(sample); err != nil {
		return err
	}
	b.sample.Namespace = "default"
	objects, err := preview.Objects(b.sample, b.version)
	if err != nil {
		return err
	}
	b.objects = len(objects) + dataRecords
	if err := b.removeAll(ctx); err != nil { // of a run that was killed
		return err
	}
	var others dsv1.DataServiceList
	if err := b.client.List(ctx, &others); err != nil {
		return err
	}
	if len(others.Items) > 0 {
		return fmt.Errorf("%s exists: the benchmark wants a cluster without DataServices", client.ObjectKeyFromObject(&others.Items[0]))
	}
	b.services, err = b.track(ctx, cache.Options{}, &dsv1.DataService{})
	return err
}

// config is the cluster's, with connections of its own.
func (b *bench) config() *rest.Config {
	config := rest.CopyConfig(b.cluster.Config)
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

// cleanUp leaves a cluster of the user's as it was, but for the CRDs.
func (b *bench) cleanUp(ctx context.Context) error {
	err := errors.Join(os.RemoveAll(b.dir), b.network.Release())
	if b.cluster.Own {
		return err
	}
	return errors.Join(err, b.deleteNamespaces(ctx))
}

func (b *bench) printFacts() {
	t := b.report.table("MACHINE", "")
	load, _ := os.ReadFile("/proc/loadavg")
	t.row("cores", fmt.Sprintf("%d x %s, load %s", runtime.NumCPU(), fact("/proc/cpuinfo", "model name"), strings.TrimSpace(string(load))))
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

// cpuSeconds is what this process has used.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
