// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs the tests of a package with a real API server.
package apiserver

import (
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Main starts an API server with the CRDs in these files, calls prepare, runs the tests, and ends the process with the
// exit code of the tests. If prepare returns a function, Main calls it after the tests.
func Main(m *testing.M, crds []string, prepare func(*rest.Config) (stop func(), err error)) {
	code, err := run(m, crds, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience bounds each wait for the API server: its start, its end and the CRDs. Only a hang exceeds it. The defaults of envtest are 20, 20 and 10
// seconds, which are too short while the binaries of other tests are linked on two cores.
const patience = 5 * time.Minute

func run(m *testing.M, crds []string, prepare func(*rest.Config) (func(), error)) (code int, err error) {
	environment := &envtest.Environment{
		CRDInstallOptions:        envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true, MaxTime: patience},
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
	}
	// Stop is necessary after a failed start, too: Start fails when the API server refuses a CRD, and the server then
	// still runs.
	defer func() {
		if stopErr := environment.Stop(); err == nil {
			err = stopErr
		}
	}()
	cfg, err := environment.Start()
	if err != nil {
		return 0, fmt.Errorf("start the API server (KUBEBUILDER_ASSETS must name a folder with kube-apiserver and etcd): %w", err)
	}
	cfg.QPS, cfg.Burst = -1, -1
	stop, err := prepare(cfg)
	if err != nil {
		return 0, err
	}
	if stop != nil {
		defer stop()
	}
	return m.Run(), nil
}
