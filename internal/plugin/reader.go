// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"d3os.com/d3os-operator/internal/object"
)

// Reader reads the objects of DataServices in one namespace with the rights of its user. It needs no discovery, because the list of kinds
// is fixed.
type Reader struct {
	Dynamic   dynamic.Interface
	Client    kubernetes.Interface
	Namespace string
}

// Selector returns the label selector of the objects and pods of a DataService, or of one component of it.
func Selector(name, component string) string {
	text := fmt.Sprintf("%s=%s,%s=%s,!%s", object.LabelManagedBy, object.ManagedBy, object.LabelInstance, name, object.LabelKind)
	if component != "" {
		text += "," + object.LabelComponent + "=" + component
	}
	return text
}

// SelectorOf returns the label selector of the objects and pods of a resource that is not a DataService, such as a RedisCluster.
func SelectorOf(o *unstructured.Unstructured) string {
	owner := object.Owner{GroupVersionKind: o.GroupVersionKind(), Name: o.GetName()}
	return labels.SelectorFromSet(labels.Set{
		object.LabelManagedBy: object.ManagedBy, object.LabelInstance: owner.Name, object.LabelKind: owner.KindLabel(),
	}).String()
}

// Objects lists the objects of the given kinds that a label selector matches. refused contains the kinds that the user may not list.
func (r *Reader) Objects(ctx context.Context, selector string, kinds []schema.GroupVersionKind) (found []*unstructured.Unstructured, refused []string, err error) {
	var mu sync.Mutex
	var all errgroup.Group
	for _, gvk := range kinds {
		all.Go(func() error {
			list, err := r.Dynamic.Resource(object.ResourceOf(gvk)).Namespace(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			mu.Lock()
			defer mu.Unlock()
			if apierrors.IsForbidden(err) {
				refused = append(refused, gvk.Kind)
				return nil
			}
			if apierrors.IsNotFound(err) && slices.Contains(object.Optional, gvk) {
				return nil // the CRD is not installed
			}
			if err != nil {
				return fmt.Errorf("list %s: %w", gvk.Kind, err)
			}
			for i := range list.Items {
				list.Items[i].SetGroupVersionKind(gvk)
				found = append(found, &list.Items[i])
			}
			return nil
		})
	}
	return found, refused, all.Wait()
}

// WithoutOptional returns the kinds of a list without those of object.Optional. If the user lacks the right to list an
// optional kind, this is not reported: many clusters do not serve these kinds, and the status of the DataService
// describes the component.
func WithoutOptional(kinds []string) []string {
	return slices.DeleteFunc(kinds, func(kind string) bool {
		return slices.ContainsFunc(object.Optional, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == kind })
	})
}

// Get reads an object; it returns nil if the object does not exist.
func (r *Reader) Get(ctx context.Context, gvk schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	live, err := r.Dynamic.Resource(object.ResourceOf(gvk)).Namespace(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	return live, nil
}

// Pods lists pods.
func (r *Reader) Pods(ctx context.Context, selector string) ([]*corev1.Pod, error) {
	list, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}
