// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster provides a cluster to a test binary: the cluster in KUBECONFIG, or a simulated cluster (hack/cluster.sh) that ends with
// the process.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options describe a simulated cluster. Start ignores them if it connects to the cluster in KUBECONFIG.
type Options struct {
	// Name identifies the cluster on its machine, together with the process ID.
	Name string
	// Pods is fast or general, see hack/cluster.sh. Default: fast.
	Pods string
	// Nodes is the number of nodes. The minimum is 4.
	Nodes int
	// Audit is the path of an audit policy (hack/cluster.sh). If it is set, Start ignores KUBECONFIG and starts a simulated cluster.
	Audit string
}

// Cluster is a running cluster.
type Cluster struct {
	Config     *rest.Config // without a client-side rate limit
	Kubeconfig string       // path of the file
	Own        bool         // Start has started the cluster, so no other process uses it
	AuditLog   string       // path; empty without an audit policy

	guard    *exec.Cmd
	lifeline io.WriteCloser
	dir      string
}

// Start starts a cluster, or connects to the cluster in KUBECONFIG.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Kubeconfig: os.Getenv("KUBECONFIG")}
	if c.Kubeconfig == "" || o.Audit != "" {
		if err := c.up(ctx, o); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", c.Kubeconfig, err), c.Stop())
	}
	cfg.QPS = -1
	c.Config = cfg
	return c, nil
}

// up starts a simulated cluster, and a guard that stops the cluster when this process ends, for any reason. The guard reads from a pipe to
// which only this process can write, and waits until the pipe closes.
func (c *Cluster) up(ctx context.Context, o Options) error {
	dir, err := os.MkdirTemp("", "d3os-cluster-")
	if err != nil {
		return fmt.Errorf("make a folder for the cluster: %w", err)
	}
	c.dir, c.Own, c.Kubeconfig = dir, true, filepath.Join(dir, "kubeconfig")
	script := filepath.Join(Root(), "hack", "cluster.sh")
	name := fmt.Sprintf("%s-%d", cmp.Or(o.Name, "test"), os.Getpid())
	if o.Audit != "" {
		c.AuditLog = filepath.Join(dir, "kwok", "clusters", name, "logs", "audit.log")
	}
	env := append(os.Environ(),
		"CLUSTER_NAME="+name,
		"CLUSTER_DIR="+dir,
		"CLUSTER_PODS="+cmp.Or(o.Pods, "fast"),
		"CLUSTER_AUDIT="+o.Audit,
		"CLUSTER_NODES="+strconv.Itoa(max(o.Nodes, 4)),
		// With GOGC=800, the control plane collects garbage an eighth as often as by default. On two cores, GOGC=400
		// reduced the processor time of test/behaviour from 295 s to 249 s, and cost 350 MB of memory.
		"GOGC=800", "GOMEMLIMIT=2GiB",
	)
	guard := exec.Command("sh", "-c", `cat >/dev/null; exec "$0" down >/dev/null 2>&1`, script)
	guard.Env = env
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard must not end the guard
	if c.lifeline, err = guard.StdinPipe(); err != nil {
		return fmt.Errorf("guard the cluster: %w", err)
	}
	if err := guard.Start(); err != nil {
		return fmt.Errorf("guard the cluster: %w", err)
	}
	c.guard = guard
	up := exec.CommandContext(ctx, script, "up")
	up.Env = env
	if out, err := up.CombinedOutput(); err != nil {
		return fmt.Errorf("start a cluster: %w\n%s", err, out)
	}
	return nil
}

// Stop removes a cluster that Start has started.
func (c *Cluster) Stop() error {
	if c.guard == nil {
		return nil
	}
	err := errors.Join(c.lifeline.Close(), c.guard.Wait(), os.RemoveAll(c.dir))
	c.guard = nil
	return err
}

// Root returns the folder of the repository: the working directory, or its nearest parent that contains hack/cluster.sh. (The path of this
// file is not compiled in: make builds with -trimpath.)
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "hack", "cluster.sh")); err == nil {
			return at
		}
	}
	return dir
}

// BuildAgent builds the agent's program.
func BuildAgent(ctx context.Context, file string) error { return build(ctx, "agent", file) }

// BuildPlugin builds the plugin of kubectl.
func BuildPlugin(ctx context.Context, file string) error {
	return build(ctx, "kubectl-dataservice", file)
}

// build builds the program of a module under cmd.
func build(ctx context.Context, program, file string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, ".") // #nosec G204 -- the tests' own arguments
	build.Dir = filepath.Join(Root(), "cmd", program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}
