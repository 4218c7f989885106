// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/version"
)

// operator is what can be found out about the operator that runs in a cluster.
type operator struct {
	// Found reports whether its Deployment could be read. The others are empty without.
	Found     bool
	Namespace string
	Image     string
	// Images replace the charts' default images.
	Images map[string]string
}

// operatorLabel selects the operator's Deployment (config/default) of any version.
const operatorLabel = "app.kubernetes.io/name=d3os-operator,control-plane=controller-manager"

// operator finds the operator's Deployment. Who may not list Deployments of all namespaces does not find it. The image of the
// agent is the operator's own unless its Deployment names another; nobody knows it where there is none: databases keep the
// guard that they have then, as with an operator outside of a pod.
func (c *cluster) operator(ctx context.Context) operator {
	found := c.findOperator(ctx)
	if found.Images == nil {
		found.Images = map[string]string{}
	}
	if found.Images[values.AgentImage] == "" {
		found.Images[values.AgentImage] = cmp.Or(found.Image, guard.UnknownImage)
	}
	return found
}

func (c *cluster) findOperator(ctx context.Context) operator {
	list, err := c.Client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: operatorLabel})
	if err != nil {
		return operator{}
	}
	for i := range list.Items {
		for _, container := range list.Items[i].Spec.Template.Spec.Containers {
			if container.Name != "manager" {
				continue
			}
			var environ []string
			for _, variable := range container.Env {
				environ = append(environ, variable.Name+"="+variable.Value)
			}
			return operator{Found: true, Namespace: list.Items[i].Namespace, Image: container.Image, Images: values.RelatedImages(environ)}
		}
	}
	return operator{}
}

// tag is the tag of an image, without the v that the releases' have.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return strings.TrimPrefix(tag, "v")
}

// writer is the newest version of an operator that wrote one of the objects; empty when none says.
func writer(objects []*unstructured.Unstructured) string {
	newest := ""
	for _, o := range objects {
		v := o.GetAnnotations()[object.AnnotationWriter]
		if v != "" && (newest == "" || version.Newer(v, newest)) {
			newest = v
		}
	}
	return newest
}
