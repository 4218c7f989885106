// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator: requests, times, throughput, memory. It prints tables in which some numbers have a bound, and fails
// if a number is outside its bound.
//
// With KUBECONFIG set, it uses that cluster. That cluster must have no DataServices, and its pods must become ready. Otherwise it starts a
// simulated cluster, and removes that cluster at the end.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/version"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/process"
)

// bench holds the state that all sections share.
type bench struct {
	flags
	cluster *cluster.Cluster
	version string        // version of Kubernetes
	client  client.Client // without a cache; its requests are not counted
	report  *report

	dir     string           // contains the operator's program
	memory  float64          // memory limit of the operator in config/manager, MiB
	network *process.Network // the operators' addresses

	sample   *dsv1.DataService
	objects  int      // objects of the sample, including credentials and the record of the database's data
	services *tracker // every DataService
	fleet    []*dsv1.DataService
}

// newBench builds the operator, connects to the cluster and installs the CRDs.
func newBench(ctx context.Context, c *cluster.Cluster, f flags) (*bench, error) {
	ctrl.SetLogger(logr.Discard()) // drops the logs of the benchmark's watches
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
	if _, err := harness.Build(ctx, cluster.Root(), b.dir); err != nil {
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
		return fmt.Errorf("read the API server's version: %w", err)
	}
	b.version = server.GitVersion
	sample, err := os.ReadFile(filepath.Join(cluster.Root(), harness.SampleFile))
	if err != nil {
		return err
	}
	if b.sample, err = plan.Parse(sample); err != nil {
		return err
	}
	b.sample.Namespace = "default"
	objects, err := plan.Objects(b.sample, b.version)
	if err != nil {
		return err
	}
	b.objects = len(objects) + dataRecords
	if err := b.removeAll(ctx); err != nil { // a killed run may have left namespaces
		return err
	}
	var others dsv1.DataServiceList
	if err := b.client.List(ctx, &others); err != nil {
		return err
	}
	if len(others.Items) > 0 {
		return fmt.Errorf("%s exists: the benchmark needs a cluster without DataServices", client.ObjectKeyFromObject(&others.Items[0]))
	}
	b.services, err = b.track(ctx, cache.Options{}, &dsv1.DataService{})
	return err
}

// config returns the cluster's configuration with separate connections.
func (b *bench) config() *rest.Config {
	config := rest.CopyConfig(b.cluster.Config)
	config.Dial = (&net.Dialer{}).DialContext
	return config
}

// cleanUp removes the benchmark's files, and its namespaces from a user's cluster. The CRDs stay.
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

// fact returns the value of the first line "name: value" of a file.
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

// cpuSeconds returns the processor time of this process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// section is one part of the benchmark. The flag -only selects sections by name.
type section struct {
	name, title string
	run         func(context.Context, *bench) error
	asked       bool // runs only when -only names it
}

// sections are all sections, in the order in which they run.
var sections = []section{
	{"render", "Render one whole DataService", renderTime{}.run, false},
	{"requests", "Requests for one DataService", requests{}.run, false},
	{"latency", "Latency, one DataService", latency{}.run, false},
	{"status", "kubectl dataservice status, 100 DataServices", status{}.run, false},
	{"middleware", "RedisClusters with real servers beside DataServices", middleware{}.run, true},
	{"tenants", "Small DataServices beside large RedisClusters", tenants{}.run, true},
	{"load", "Load: create, change, restart beside, delete", load{}.run, true},
	{"against", "Beside the operator of another commit", against{}.run, true},
}

func main() {
	f, err := parseFlags(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, f)
		stop()
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{Name: "bench", Nodes: 2 + f.most()/servicesPerNode})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()

	b, err := newBench(ctx, c, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cleanUp(context.WithoutCancel(ctx))) }()
	b.printFacts()
	for _, s := range sections {
		if !slices.Contains(f.only, s.name) {
			continue
		}
		b.report.begin(s.name, s.title)
		begun := time.Now()
		err := b.removeAll(ctx)
		if err == nil {
			err = s.run(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		b.report.note("\n%s s", number(time.Since(begun).Seconds()))
	}
	b.report.totals()
	if n := len(b.report.outside); n > 0 {
		return fmt.Errorf("%d numbers are outside their bounds", n)
	}
	return nil
}
