// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compat_test applies files for other operators with kubectl, on a real API server with simulated pods. The operator has only the
// rights of config/rbac and config/compat.
package compat_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

var suite = &stage.Suite{
	Patience: func() time.Duration { return 5 * time.Minute },
	Lists:    []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}, &batchv1.CronJobList{}, &corev1.PodList{}},
}

// admin is the path of kubectl's kubeconfig file.
var admin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "d3os-compat-")
	if err != nil {
		panic(err)
	}
	admin = filepath.Join(dir, "kubeconfig")
	code := suite.Main(m, cluster.Options{Name: "compat", Nodes: 5}, suite.Grant)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// env is a namespace in which a test can start an operator.
type env struct{ *stage.Stage }

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{suite.New(t)}
	c := clientcmdapi.NewConfig()
	c.Clusters["a"] = &clientcmdapi.Cluster{Server: suite.Config.Host, CertificateAuthorityData: suite.Config.CAData, CertificateAuthority: suite.Config.CAFile}
	c.AuthInfos["a"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: suite.Config.CertData, ClientKeyData: suite.Config.KeyData, ClientCertificate: suite.Config.CertFile, ClientKey: suite.Config.KeyFile,
		Token: suite.Config.BearerToken,
	}
	c.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	c.CurrentContext = "a"
	e.Must(clientcmd.WriteToFile(*c, admin))
	return e
}

// asInstalled makes an operator use the service account of config/default, and the agent's image.
func asInstalled(config *rest.Config, o *manager.Options) {
	stage.AsInstalled(config, o)
	o.OptionalPoll = 100 * time.Millisecond
	o.Images = map[string]string{"agent": "example/agent:v1"}
}

// kubectl runs kubectl in the namespace, and returns its output.
func (e *env) kubectl(args ...string) (string, error) {
	e.Helper()
	cmd := exec.CommandContext(e.Ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", admin, "--cache-dir", filepath.Dir(admin), "--namespace", e.Namespace}, args...)...)
	cmd.Dir = cluster.Root()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs kubectl and returns its output. It fails the test if the command fails.
func (e *env) must(args ...string) string {
	e.Helper()
	out, err := e.kubectl(args...)
	if err != nil {
		e.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// shows waits until kubectl prints all words.
func (e *env) shows(args string, words ...string) {
	e.Helper()
	e.Until("kubectl "+args, func() error {
		out, err := e.kubectl(strings.Fields(args)...)
		if err != nil {
			return err
		}
		return harness.Mentions(out, words...)
	})
}
