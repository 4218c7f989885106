// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e_test installs the operator in every way that docs/install.md documents, by running the commands of that page. It checks a
// platform with real pods. hack/e2e.sh prepares the cluster and the images.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const (
	// operatorNamespace is the namespace of the operator in docs/install.md.
	operatorNamespace = "d3os-operator-system"
	// platformNamespace and sample are the namespace and name of the platform in docs/install.md.
	platformNamespace = "dataservice"
	sample            = "dataservice-sample"
	// patience is the time limit of waits that have no documented limit.
	patience = 3 * time.Minute
)

var (
	root string
	// version is the version of this tree. lastRelease is the previous version, from which most users will upgrade.
	version, lastRelease string
	api                  client.Client
	page                 *document
)

func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	// E2E_WHOLE is set unless -run omits some tests, and their commands, on purpose.
	if left := page.left(); code == 0 && os.Getenv("E2E_WHOLE") != "" && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "e2e: commands of %s that no test has run:\n%s\n", page.path, strings.Join(left, "\n--\n"))
		code = 1
	}
	os.Exit(code)
}

// full reports whether the full form runs: with OLM v1 and an S3 store.
func full() bool { return os.Getenv("E2E") == "full" }

func setUp() error {
	ctrl.SetLogger(logr.Discard())
	var err error
	if root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	if err := readVersions(); err != nil {
		return err
	}
	if page, err = read(filepath.Join(root, "docs", "install.md")); err != nil {
		return err
	}
	if err := dsv1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read KUBECONFIG: %w", err)
	}
	config.QPS, config.Burst = 50, 100
	api, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	return err
}

func readVersions() error {
	content, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return err
	}
	version = strings.TrimSpace(string(content))
	out, err := exec.CommandContext(context.Background(), filepath.Join(root, "hack", "released.sh"), version).Output()
	if err != nil {
		return fmt.Errorf("find the release before %s: %w", version, err)
	}
	lastRelease = strings.TrimSpace(string(out))
	return nil
}

// shell runs a script in the repository's folder with the tools on PATH, and returns its output. It also works during the clean-up of a
// test. If E2E_EXEC is set, it is a command that runs the script on a host that reaches the cluster's registries.
func shell(t *testing.T, script string) string {
	t.Helper()
	args := append(strings.Fields(os.Getenv("E2E_EXEC")), "bash", "-euo", "pipefail", "-c", script)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
	command.Dir = root
	var out strings.Builder
	command.Stdout, command.Stderr = &out, &out
	began := time.Now()
	err := command.Run()
	t.Logf("[%.1f s] %s\n%s", time.Since(began).Seconds(), script, out.String())
	if err != nil {
		t.Fatalf("run the commands above: %v", err)
	}
	return out.String()
}

// eventually waits until a check returns no error.
func eventually(t *testing.T, what string, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	began := time.Now()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, last)
	}
	t.Logf("%s: after %.1f s", what, time.Since(began).Seconds())
}
