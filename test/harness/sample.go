// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// SampleFile is the sample of the whole platform.
const SampleFile = "config/samples/d3os-product.com_v1_dataservice.yaml"

// Fields are fields of a resource, as in a merge patch.
type Fields = map[string]any

// Read returns the DataService of a file, with merge patches of its spec applied.
func Read(file string, changes ...Fields) *unstructured.Unstructured {
	ds := &unstructured.Unstructured{}
	if err := ReadYAML(file, &ds.Object); err != nil {
		panic(err)
	}
	return With(ds, changes...)
}

// With applies merge patches to the spec of a DataService.
func With(ds *unstructured.Unstructured, changes ...Fields) *unstructured.Unstructured {
	for _, c := range changes {
		Merge(ds.Object, Fields{"spec": c})
	}
	data, err := json.Marshal(ds) // JSON leaves only types that an unstructured object allows
	if err == nil {
		err = json.Unmarshal(data, ds)
	}
	if err != nil {
		panic(err)
	}
	return ds
}

// Sample returns the sample with changes, and without its node port: a cluster can use a node port only once.
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

// Prerequisites creates the objects that the samples require.
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

// Observed returns an error if the operator has not observed a generation of a DataService, or nil.
func Observed(ds *dsv1.DataService, generation int64) error {
	switch {
	case ds == nil:
		return errors.New("the DataService does not exist")
	case ds.Generation < generation || ds.Status.ObservedGeneration < generation:
		return fmt.Errorf("%s has not observed generation %d", ds.Name, generation)
	}
	return nil
}

// IsReady returns the reason why a DataService is not ready in a generation, or nil.
func IsReady(ds *dsv1.DataService, generation int64) error {
	if err := Observed(ds, generation); err != nil {
		return err
	}
	if err := HasCondition(ds, dsv1.ConditionReady, metav1.ConditionTrue, dsv1.ReasonAllReady); err != nil {
		return err
	}
	if ds.Status.Phase != dsv1.PhaseRunning {
		return fmt.Errorf("ready, but the phase is %s: %s", ds.Status.Phase, ds.Status.Message)
	}
	for _, c := range ds.Status.Components {
		if c.Ready < c.Desired {
			return fmt.Errorf("ready, but %s has %d of %d pods", c.Name, c.Ready, c.Desired)
		}
	}
	return nil
}

// HasCondition returns the difference between a condition and the expected one, or nil.
func HasCondition(ds *dsv1.DataService, kind string, status metav1.ConditionStatus, reason string, words ...string) error {
	if ds == nil {
		return errors.New("the DataService does not exist")
	}
	c := meta.FindStatusCondition(ds.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s; phase %q, message %q", kind, ds.Status.Phase, ds.Status.Message)
	}
	if c.Status != status || reason != "" && c.Reason != reason {
		return fmt.Errorf("condition %s is %s %s: %s; phase %q", kind, c.Status, c.Reason, c.Message, ds.Status.Phase)
	}
	return Mentions(c.Message, words...)
}

// Mentions returns an error if a text lacks one of the words, or nil. Any white space counts as one space, because the operator replaces
// the white space in API server errors that conditions quote.
func Mentions(text string, words ...string) error {
	for _, word := range words {
		if !strings.Contains(oneSpaced(text), oneSpaced(word)) {
			return fmt.Errorf("%q does not mention %q", text, word)
		}
	}
	return nil
}

func oneSpaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// RestoredTo is the time to which the database of a RestoredClaim was restored.
const RestoredTo = "2026-01-02T15:29:59Z"

// RestoredClaim returns the claim that a DataRestore creates for a database. The claim names the Secret with the passwords of the backed-up
// database.
func RestoredClaim(namespace, platform, from, database string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "data-" + database + "-0",
			Labels: map[string]string{
				"app.kubernetes.io/managed-by": "d3os-operator", "app.kubernetes.io/instance": platform, "app.kubernetes.io/name": "mysql",
			},
			Annotations: map[string]string{
				"d3os-product.com.d3os/restored-to": RestoredTo, "d3os-product.com.d3os/credentials": from + "-credentials", "helm.sh/resource-policy": "keep",
			},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
}
