// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RestoredTo is the moment to which the database of a RestoredClaim was restored.
const RestoredTo = "2026-01-02T15:29:59Z"

// RestoredClaim is the claim of a database as a DataRestore leaves it, with the passwords of the database that it was
// restored from.
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
