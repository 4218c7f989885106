// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build alerts

// Package alerts_test runs a real Prometheus that scrapes the operator's processes on a simulated cluster. `make
// suite-alerts` runs it. The alerts are those of config/prometheus, with shorter durations. Each alert fires for a fault, and no
// alert fires without a fault.
package alerts_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/process"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is the default time limit. It is long, because the machine may be busy: eight members of MySQLClusters are created at the same time.
const patience = 12 * time.Minute

// The state that all tests share.
var (
	suite = &stage.Suite{
		Patience: func() time.Duration { return patience },
		Lists:    []client.ObjectList{&dsv1.DataServiceList{}, &corev1.PodList{}},
	}
	programs struct{ prometheus, older, newer, agent string }
	token    string // of a service account that may read metrics
	guard    *process.Guard
	network  *process.Network
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "d3os-alerts-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code := suite.Main(m, cluster.Options{Name: "alerts", Nodes: 8}, func(ctx context.Context) error { return prepare(ctx, dir) })
	if guard != nil {
		if err := guard.End(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// prepare builds the operator in two versions, and lets Prometheus read metrics.
func prepare(ctx context.Context, dir string) error {
	folder := os.Getenv("PROMETHEUS")
	if folder == "" {
		return fmt.Errorf("PROMETHEUS is not the folder of prometheus: make suite-alerts sets it")
	}
	programs.prometheus = filepath.Join(folder, "prometheus")
	var err error
	if guard, err = process.NewGuard(dir); err != nil {
		return err
	}
	if network, err = process.ClaimNetwork(); err != nil {
		return err
	}
	for version, program := range map[string]*string{"0.9.0": &programs.older, "0.9.1": &programs.newer} {
		*program = filepath.Join(dir, "manager-"+version)
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", *program, "-ldflags", "-s -w -X d3os.com/d3os-operator/internal/version.Version="+version, ".")
		build.Dir = cluster.Root()
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the operator: %w\n%s", err, out)
		}
	}
	programs.agent = filepath.Join(dir, "agent")
	if err := cluster.BuildAgent(ctx, programs.agent); err != nil {
		return err
	}
	return allow(ctx)
}

// allow creates the service account of Prometheus, with the role in the operator's manifests.
func allow(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "prometheus"}}
	role := &rbacv1.ClusterRole{}
	if err := harness.ReadYAML("config/rbac/metrics_reader_role.yaml", role); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{account, role, binding} {
		if err := suite.API.Create(ctx, object); err != nil {
			return fmt.Errorf("let Prometheus read metrics: %w", err)
		}
	}
	hours := int64(4 * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
	if err := suite.API.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("get a token for Prometheus: %w", err)
	}
	token = request.Status.Token
	return nil
}
