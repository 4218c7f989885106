// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/version"
)

// resource is the API resource of DataServices.
var resource = dsv1.GroupVersion.WithResource("dataservices")

// fieldManager owns the fields that the plugin writes.
const fieldManager = "kubectl-dataservice"

// cluster reads and writes with the user's rights, in one namespace.
type cluster struct {
	plugin.Reader

	config *rest.Config
}

func (p *cli) cluster() (*cluster, error) {
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
	config.QPS = -1 // no client-side limit: the API server limits requests
	c := &cluster{plugin.Reader{Namespace: namespace}, config}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

// dataService connects to the cluster and reads a DataService.
func (p *cli) dataService(ctx context.Context, name string) (*cluster, *dsv1.DataService, error) {
	c, err := p.cluster()
	if err != nil {
		return nil, nil, err
	}
	ds, err := c.get(ctx, name)
	return c, ds, err
}

// get reads a DataService.
func (c *cluster) get(ctx context.Context, name string) (*dsv1.DataService, error) {
	live, err := c.Dynamic.Resource(resource).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read DataService %s in namespace %s: %w", name, c.Namespace, err)
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

// list reads the DataServices of the namespace, or of all namespaces. It decodes them directly into Go types, because decoding into maps
// takes as long as the request itself.
func (c *cluster) list(ctx context.Context, all bool) (items []dsv1.DataService, version string, err error) {
	request := c.Client.Discovery().RESTClient().Get().AbsPath("/apis", resource.Group, resource.Version)
	if !all {
		request = request.Suffix("namespaces", c.Namespace)
	}
	data, err := request.Suffix(resource.Resource).DoRaw(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("list DataServices: %w", err)
	}
	list := &dsv1.DataServiceList{}
	if err := json.Unmarshal(data, list); err != nil {
		return nil, "", fmt.Errorf("read the list of DataServices: %w", err)
	}
	return list.Items, list.ResourceVersion, nil
}

func (c *cluster) events(ctx context.Context) ([]corev1.Event, error) {
	list, err := c.Client.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{})
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
