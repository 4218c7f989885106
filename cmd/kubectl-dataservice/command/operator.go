// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/plugin/why"
	"d3os.com/d3os-operator/internal/version"
)

// operator describes the operator that runs in a cluster. It contains only facts that the user may read.
type operator struct {
	// Found reports whether the operator's Deployment could be read. If it is false, the other fields are empty.
	Found     bool
	Namespace string
	Image     string
	// Images are the images that replace the charts' default images.
	Images map[string]string

	deployment *appsv1.Deployment
}

// operatorLabel selects the operator's Deployment (config/default) in any version.
const operatorLabel = "app.kubernetes.io/name=d3os-operator,control-plane=controller-manager"

// operator finds the operator's Deployment. If the user may not list Deployments of all namespaces, only the field Images is set. The
// agent's image is the operator's image, unless the Deployment names another image. Without a Deployment, the agent's image is unknown: the
// plan keeps each database's present guard, as for an operator that runs outside of a pod.
func (c *cluster) operator(ctx context.Context) operator {
	found := c.findOperator(ctx)
	if found.Images == nil {
		found.Images = map[string]string{}
	}
	if found.Images[values.AgentImage] == "" {
		found.Images[values.AgentImage] = cmp.Or(found.Image, mysql.UnknownImage)
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
			return operator{Found: true, Namespace: list.Items[i].Namespace, Image: container.Image, Images: values.RelatedImages(environ), deployment: &list.Items[i]}
		}
	}
	return operator{}
}

// operatorState reads the operator's Deployment for why. If no pod of the operator is ready, it also reads the operator's pods and Events.
func (c *cluster) operatorState(ctx context.Context) *why.Operator {
	found := c.findOperator(ctx).deployment
	if found == nil || found.Status.ReadyReplicas > 0 {
		return nil
	}
	found.APIVersion, found.Kind = "apps/v1", "Deployment" // objects in a list lack these fields
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return nil
	}
	state := &why.Operator{Deployment: &unstructured.Unstructured{Object: fields}}
	if pods, err := c.Client.CoreV1().Pods(found.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(found.Spec.Selector)}); err == nil {
		for i := range pods.Items {
			if strings.HasPrefix(pods.Items[i].Name, found.Name+"-") { // pods of other operators have the same label
				state.Pods = append(state.Pods, &pods.Items[i])
			}
		}
	}
	if events, err := c.Client.CoreV1().Events(found.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + health.ReasonOperator}); err == nil {
		state.Events = events.Items
	}
	return state
}

// tag returns the tag of an image without the prefix v.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return strings.TrimPrefix(tag, "v")
}

// writer returns the newest operator version that wrote one of the objects; "" if no object records a version.
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
