// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/platform/values"
)

// container is the name of the operator's container in config/manager.
const container = "manager"

// withAgent adds the agent's image to the images: the given image, or else the image of the operator's own pod. Outside
// of a pod, it adds UnknownImage, and existing databases keep their guards. It returns an error if the pod cannot be
// read.
func withAgent(ctx context.Context, cfg *rest.Config, images map[string]string, env func(string) string) (map[string]string, error) {
	if images[values.AgentImage] != "" {
		return images, nil
	}
	namespace, name := env("POD_NAMESPACE"), env("POD_NAME")
	if namespace == "" || name == "" {
		ctrl.Log.Info("RELATED_IMAGE_AGENT and POD_NAME are not set, so the operator does not know its own image: new databases start without the init container that guards their data; set RELATED_IMAGE_AGENT to the operator's image")
		return with(images, mysql.UnknownImage), nil
	}
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	// A list by name needs no right in addition to those of the cache, which also lists pods.
	pods, err := api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, fmt.Errorf("read the operator's pod %s/%s: %w", namespace, name, err)
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Spec.Containers {
			if c.Name == container {
				return with(images, c.Image), nil
			}
		}
	}
	return nil, fmt.Errorf("find the operator's image: pod %s/%s with a container %s does not exist", namespace, name, container)
}

// with returns a copy of the images with the image of the agent.
func with(images map[string]string, agent string) map[string]string {
	images = maps.Clone(images)
	if images == nil {
		images = map[string]string{}
	}
	images[values.AgentImage] = agent
	return images
}
