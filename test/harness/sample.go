// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SampleFile is the sample of the whole platform.
const SampleFile = "config/samples/d3os-product.com_v1_dataservice.yaml"

// Fields are parts of a resource, as in a patch.
type Fields = map[string]any

// Read returns the DataService of a file with changes: merge patches of its spec.
func Read(file string, changes ...Fields) *unstructured.Unstructured {
	ds := &unstructured.Unstructured{}
	if err := ReadYAML(file, &ds.Object); err != nil {
		panic(err)
	}
	return With(ds, changes...)
}

// With changes a DataService: merge patches of its spec.
func With(ds *unstructured.Unstructured, changes ...Fields) *unstructured.Unstructured {
	for _, c := range changes {
		Merge(ds.Object, Fields{"spec": c})
	}
	data, err := json.Marshal(ds) // leaves only the types that an unstructured object may hold
	if err == nil {
		err = json.Unmarshal(data, ds)
	}
	if err != nil {
		panic(err)
	}
	return ds
}

// Sample returns the sample with changes. The node port goes, because it is one for the whole
// cluster.
func Sample(changes ...Fields) *unstructured.Unstructured {
	return Read(SampleFile, append([]Fields{{"web": Fields{"nodePort": nil}}}, changes...)...)
}

// Small returns a DataService with the middleware, auth, proxy and web.
func Small(changes ...Fields) *unstructured.Unstructured {
	none := Fields{}
	for _, name := range []string{"api-manager", "ds-adapter", "es-adapter", "trd-adapter", "gateway-master", "gateway-web"} {
		none[name] = nil
	}
	return Sample(append([]Fields{none}, changes...)...)
}

// Merge applies a JSON merge patch.
func Merge(to, from Fields) {
	for key, value := range from {
		change, isMap := value.(Fields)
		old, wasMap := to[key].(Fields)
		switch {
		case value == nil:
			delete(to, key)
		case isMap && wasMap:
			Merge(old, change)
		case isMap:
			old = Fields{}
			Merge(old, change)
			to[key] = old
		default:
			to[key] = value
		}
	}
}

// Prerequisites creates what the samples say that they need.
func Prerequisites(ctx context.Context, api client.Client, namespace string) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "dataservice-high"}, Value: 1000}
	if err := client.IgnoreAlreadyExists(api.Create(ctx, class)); err != nil {
		return err
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
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
		if err := api.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
