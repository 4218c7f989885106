// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/version"
)

// resource is that of DataServices.
var resource = dsv1.GroupVersion.WithResource("dataservices")

// fieldManager owns what the plugin writes.
const fieldManager = "kubectl-dataservice"

// cluster reads and writes with the user's rights, in one namespace. It asks for no discovery: the kinds that it
// reads are known.
type cluster struct {
	config    *rest.Config
	dynamic   dynamic.Interface
	client    kubernetes.Interface
	namespace string
}

func (p *plugin) cluster() (*cluster, error) {
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = fieldManager + "/" + version.Version
	config.QPS = -1 // the API server's priority and fairness decides
	c := &cluster{config: config, namespace: namespace}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

// get reads a DataService.
func (c *cluster) get(ctx context.Context, name string) (*dsv1.DataService, error) {
	live, err := c.dynamic.Resource(resource).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read DataService %s in namespace %s: %w", name, c.namespace, err)
	}
	return decode(live)
}

func decode(live *unstructured.Unstructured) (*dsv1.DataService, error) {
	ds := &dsv1.DataService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, ds); err != nil {
		return nil, fmt.Errorf("read DataService %s/%s: %w", live.GetNamespace(), live.GetName(), err)
	}
	return ds, nil
}

// list reads the DataServices of the namespace, or of all.
func (c *cluster) list(ctx context.Context, all bool) (items []dsv1.DataService, version string, err error) {
	namespace := c.namespace
	if all {
		namespace = metav1.NamespaceAll
	}
	list, err := c.dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list DataServices: %w", err)
	}
	items = make([]dsv1.DataService, 0, len(list.Items))
	for i := range list.Items {
		ds, err := decode(&list.Items[i])
		if err != nil {
			return nil, "", err
		}
		items = append(items, *ds)
	}
	return items, list.GetResourceVersion(), nil
}

// resourceOf is the resource of a kind that the operator manages.
func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural
}

// selector selects what belongs to a DataService, or to one component of it.
func selector(name, component string) string {
	text := fmt.Sprintf("%s=%s,%s=%s,!%s", object.LabelManagedBy, object.ManagedBy, object.LabelInstance, name, object.LabelKind)
	if component != "" {
		text += "," + object.LabelComponent + "=" + component
	}
	return text
}

// selectorOf selects the pods of a resource that is a component of a DataService.
func selectorOf(o *unstructured.Unstructured) string {
	owner := object.Owner{GroupVersionKind: o.GroupVersionKind(), Name: o.GetName()}
	return labels.SelectorFromSet(labels.Set{
		object.LabelManagedBy: object.ManagedBy, object.LabelInstance: owner.Name, object.LabelKind: owner.KindLabel(),
	}).String()
}

// objects lists what belongs to a DataService, of the given kinds. What the user may not list is in the second result.
func (c *cluster) objects(ctx context.Context, selector string, kinds []schema.GroupVersionKind) (found []*unstructured.Unstructured, refused []string, err error) {
	var mu sync.Mutex
	var all errgroup.Group
	for _, gvk := range kinds {
		all.Go(func() error {
			list, err := c.dynamic.Resource(resourceOf(gvk)).Namespace(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			mu.Lock()
			defer mu.Unlock()
			if apierrors.IsForbidden(err) {
				refused = append(refused, gvk.Kind)
				return nil
			}
			if apierrors.IsNotFound(err) && slices.Contains(object.Resources, gvk) {
				return nil // its CRD is not installed
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

func (c *cluster) pods(ctx context.Context, selector string) ([]*corev1.Pod, error) {
	list, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

func (c *cluster) events(ctx context.Context) ([]corev1.Event, error) {
	list, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list.Items, nil
}

func toJSON(value any) (string, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", err
	}
	return string(data) + "\n", nil
}
