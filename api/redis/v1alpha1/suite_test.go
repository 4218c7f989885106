// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"os"
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

const crdFile = "../../../config/crd/bases/redis.middleware.hc.cn_redisclusters.yaml"

// api is a client of a real API server that has the CRD. It refuses unknown fields.
var api client.Client

func TestMain(m *testing.M) {
	code, err := runWithAPIServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runWithAPIServer(m *testing.M) (code int, err error) {
	environment := &envtest.Environment{CRDDirectoryPaths: []string{crdFile}, ErrorIfCRDPathMissing: true}
	// Also after a start that failed, which it does with a CRD that the API server refuses.
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
	known := runtime.NewScheme()
	if err := AddToScheme(known); err != nil {
		return 0, err
	}
	plain, err := client.New(cfg, client.Options{Scheme: known})
	if err != nil {
		return 0, err
	}
	api = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	return m.Run(), nil
}

// resourceOf is a RedisCluster with a spec in YAML.
func resourceOf(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	assert.NilError(t, yaml.Unmarshal([]byte(spec), &content), "%s", spec)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(GroupVersion.WithKind(Kind))
	object.SetName(name)
	object.SetNamespace("default")
	return object
}
