// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/test/cluster"
)

// Every sample comes up as it is. No other test runs meanwhile: node ports are one for the whole
// cluster.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(cluster.Root(), "config/samples/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the samples are missing: %v", err)
	}
	for _, file := range files {
		file := filepath.Base(file)
		if file == "kustomization.yaml" {
			continue
		}
		t.Run(file, func(t *testing.T) {
			e := parallel(t)
			e.startOperator()
			e.prerequisites()
			ds := &unstructured.Unstructured{}
			e.must(readYAML("config/samples/"+file, &ds.Object))
			ds.SetNamespace(e.namespace)
			e.must(api.Apply(e.ctx, client.ApplyConfigurationFromUnstructured(ds), client.FieldOwner("kubectl")))
			e.ready(ds.GetName())
			w := &walk{env: e, name: ds.GetName()}
			e.until("all is as planned", w.asPlanned)
			if !own {
				e.remove(ds.GetName()) // its node ports are those of the whole cluster
			}
		})
	}
}

// prerequisites creates what the samples say that they need.
func (e *env) prerequisites() {
	e.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "dataservice-high"}, Value: 1000}
	e.must(client.IgnoreAlreadyExists(api.Create(e.ctx, class)))
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: e.namespace, Name: name} }
	tls := map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}}
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: in("more-tables"), Data: map[string]string{"10-more.sql": "SELECT 1;"}},
		&corev1.ConfigMap{ObjectMeta: in("reports-settings"), Data: map[string]string{"MODE": "fast", "logging.xml": "<logging/>"}},
		&corev1.Secret{ObjectMeta: in("database-account"), StringData: map[string]string{"root-password": "hush", "username": "app", "password": "hush"}},
		&corev1.Secret{ObjectMeta: in("reports-certificate"), StringData: map[string]string{"ca.crt": "none"}},
		&corev1.Secret{ObjectMeta: in("registry"), Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: "{}"}},
		&corev1.Secret{ObjectMeta: in("everything-tls"), Type: corev1.SecretTypeTLS, Data: tls},
		&corev1.Secret{ObjectMeta: in("data-example-com"), Type: corev1.SecretTypeTLS, Data: tls},
		&corev1.PersistentVolumeClaim{ObjectMeta: in("dataservice-dump"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	} {
		e.must(api.Create(e.ctx, object))
	}
}
