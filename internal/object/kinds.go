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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds lists every kind that a chart can render, except the kinds in Optional. Watches, cache and prune use this list. A test compares the
// list with the kinds that the charts render, and with the RBAC markers.
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

// JobKind is the kind of a single run. No chart renders a Job: a step creates a Job once, and the Job is never corrected.
var JobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// CronJobKind is the kind of scheduled runs.
var CronJobKind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Resources are the custom kinds that a chart can render, as a part of a resource of another kind. Each has its own controller.
// Their CRDs may be missing.
var Resources = []schema.GroupVersionKind{
	{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"},
	{Group: "etcd.database.coreos.com", Version: "v1alpha1", Kind: "EtcdCluster"},
	{Group: "d3os-product.com.d3os", Version: "v1alpha1", Kind: "MySQLCluster"},
	Foreign,
}

// Route is the kind HTTPRoute, which publishes a Service through Gateways. Its CRD may be missing.
var Route = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}

// Optional are the kinds that a chart can render and whose CRDs may be missing.
var Optional = append(slices.Clone(Resources), Route)

// IsUntyped reports whether a kind has no Go type here. The CRD of such a kind checks fields and adds defaults that are unknown here.
func IsUntyped(gvk schema.GroupVersionKind) bool { return gvk == Foreign || gvk == Route }

// Foreign is the only kind in Resources that another operator reconciles. Its Go type and defaults are unknown here, and it cannot
// be paused.
var Foreign = schema.GroupVersionKind{Group: "mongodbcommunity.mongodb.com", Version: "v1", Kind: "MongoDBCommunity"}

// IsForeign reports whether the kind of an object is Foreign.
func IsForeign(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == Foreign }

// ResourceOf returns the resource of a kind that the operator manages.
func ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	switch {
	case gvk == Foreign: // the plural of this kind equals the singular
		return gvk.GroupVersion().WithResource("mongodbcommunity")
	case gvk.Kind == "ModelBox":
		return gvk.GroupVersion().WithResource("modelboxes")
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural
}

// IsResource reports whether the kind of an object is one of Resources.
func IsResource(o *unstructured.Unstructured) bool {
	return slices.Contains(Resources, o.GroupVersionKind())
}

// PauseField returns the spec field that pauses a resource of a kind in Resources, or "" if the kind has no such field.
func PauseField(resource *unstructured.Unstructured) string {
	switch resource.GetKind() {
	case "RedisCluster":
		return "pause"
	case Foreign.Kind:
		return ""
	}
	return "paused"
}

// ConfigMapKind is the kind of objects that hold settings, or the operator's record of a database's data.
var ConfigMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// ClaimKind is the kind of claims for volumes.
var ClaimKind = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")

// StatefulSetKind is the kind of workloads with a volume for each pod.
var StatefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// IndexOwner is the name of the cache index that finds the objects of a kind by the Key of their owner.
const IndexOwner = "owner"

// Empty returns an empty object of a kind, for a read or a watch.
func Empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o
}

// EmptyList returns an empty list of objects of a kind, for a read.
func EmptyList(gvk schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// IndexPart is the name of the cache index that finds pods by the part of the owner that they belong to; see PartKey.
const IndexPart = "part"

// PartKey returns the value by which IndexPart finds the pods of a part. owner is the Key of the part's owner.
func PartKey(owner, part string) string { return owner + "/" + part }

// UnknownImage is planned as the agent's image if the operator runs outside of a pod and does not know that image.
const UnknownImage = "unknown"
