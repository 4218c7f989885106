// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schema_test tests the CRDs of all kinds on one real API server: schema, defaults, CEL rules, samples, and the policy for authors.
package schema_test

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/apiserver"
)

var (
	// api is a client of a real API server that has the CRDs. It refuses unknown fields.
	api client.Client
	// config is the configuration of the API server's administrator.
	config *rest.Config
)

func TestMain(m *testing.M) {
	apiserver.Main(m, []string{"../../config/crd/bases"}, func(cfg *rest.Config) (stop func(), err error) {
		known := runtime.NewScheme()
		if err := errors.Join(scheme.AddToScheme(known), dsv1.AddToScheme(known), backupv1.AddToScheme(known), etcdv1.AddToScheme(known),
			mysqlv1.AddToScheme(known), redisv1.AddToScheme(known)); err != nil {
			return nil, err
		}
		plain, err := client.New(cfg, client.Options{Scheme: known})
		if err != nil {
			return nil, err
		}
		config, api = cfg, client.WithFieldValidation(plain, metav1.FieldValidationStrict)
		return nil, nil
	})
}

func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	assert.NilError(t, api.Create(t.Context(), ns))
	return ns.Name
}
