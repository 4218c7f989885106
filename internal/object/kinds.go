// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds is every kind that a chart can render. Watches, cache and prune use this list, and a
// test compares it with what the charts render and with the RBAC markers.
var Kinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Secret"),
	ConfigMapKind,
	ClaimKind,
	corev1.SchemeGroupVersion.WithKind("Service"),
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	StatefulSetKind,
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	CronJobKind,
	autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	networkingv1.SchemeGroupVersion.WithKind("Ingress"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
}

// JobKind is the kind of work that ends. No chart renders one: a Job is made once, by a step, and never put right.
var JobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// CronJobKind is the kind of work that is done again and again.
var CronJobKind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Resources are the kinds of this operator's own that a chart can render, as part of a resource of another kind. Each
// is carried out by its own controller. Their CRDs may not be installed.
var Resources = []schema.GroupVersionKind{
	{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"},
	{Group: "etcd.database.coreos.com", Version: "v1alpha1", Kind: "EtcdCluster"},
}

// IsResource reports whether an object is of one of Resources.
func IsResource(o *unstructured.Unstructured) bool {
	return slices.Contains(Resources, o.GroupVersionKind())
}

// PauseField is the field of the spec of a resource, of one of Resources, that stops its controller.
func PauseField(resource *unstructured.Unstructured) string {
	if resource.GetKind() == "RedisCluster" {
		return "pause"
	}
	return "paused"
}

// ConfigMapKind is the kind of settings, and of what the operator remembers of data.
var ConfigMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// ClaimKind is the kind of claims for volumes.
var ClaimKind = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")

// StatefulSetKind is the kind of workloads with volumes of their own.
var StatefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// IndexOwner is the cache index of every kind by the Key of the owner that its objects belong to.
const IndexOwner = "owner"

// Empty returns an object of a kind, to read into or to watch.
func Empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o
}

// EmptyList returns a list of objects of a kind, to read into.
func EmptyList(gvk schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// IndexPart is the cache index of pods by the part of the owner that they belong to; see PartKey.
const IndexPart = "part"

// PartKey is the value of IndexPart for a part of the owner with that Key.
func PartKey(owner, part string) string { return owner + "/" + part }
