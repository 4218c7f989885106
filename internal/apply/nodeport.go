// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// Names with releasedPrefix belong to the ports that ReleaseNodePorts adds in its first write, and removes in its second
// write.
const releasedPrefix = "d3os-released-"

// ReleaseNodePorts removes node ports from a Service, so that the API server chooses other ones. A port that is written without a node port
// would keep its number, unless another port of the Service has that number. So the first write moves each number to an additional port,
// and the second write removes the additional port. It also removes additional ports that an interrupted call has left.
func (a *Applier) ReleaseNodePorts(ctx context.Context, owner object.Owner, live *unstructured.Unstructured, numbers []int64) error {
	if err := checkOwner(owner, live, live); err != nil {
		return err
	}
	if err := a.checkWriter(live); err != nil {
		return err
	}
	obj := live.DeepCopy()
	ports := slices.DeleteFunc(items(obj.Object, "spec", "ports"), isReleased)
	var holders []map[string]any
	for i, port := range ports {
		number, _ := port["nodePort"].(int64)
		if !slices.Contains(numbers, number) {
			continue
		}
		delete(port, "nodePort")
		holders = append(holders, map[string]any{
			"name": fmt.Sprint(releasedPrefix, i), "port": unusedPort(append(ports, holders...), number), "protocol": port["protocol"], "nodePort": number,
		})
	}
	if len(holders) > 0 {
		if err := a.writePorts(ctx, obj, append(ports, holders...)); err != nil {
			return err
		}
		ports = slices.DeleteFunc(items(obj.Object, "spec", "ports"), isReleased)
	}
	return a.writePorts(ctx, obj, ports)
}

func (a *Applier) writePorts(ctx context.Context, obj *unstructured.Unstructured, ports []map[string]any) error {
	spec, _ := obj.Object["spec"].(map[string]any)
	setField(spec, "ports", list(ports))
	if err := a.client.Update(ctx, obj, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("release a node port of %s: %w", describe(obj), err)
	}
	a.wrote(obj, Updated)
	return nil
}

func isReleased(port map[string]any) bool {
	name, _ := port["name"].(string)
	return strings.HasPrefix(name, releasedPrefix)
}

// unusedPort returns the highest port number that no port of a Service has, and that is not above `from`.
func unusedPort(ports []map[string]any, from int64) int64 {
	for slices.ContainsFunc(ports, func(port map[string]any) bool { return port["port"] == from }) {
		from--
	}
	return from
}

// portTaken is the API server's text about a node port that another Service has.
const portTaken = "provided port is already allocated"

// nameHolder adds the name of the Service that has the node port to the error about that port. It reads only Services in the object's
// namespace.
func (a *Applier) nameHolder(ctx context.Context, planned *unstructured.Unstructured, err error) error {
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), portTaken) {
		return err
	}
	services := &corev1.ServiceList{}
	if a.live.List(ctx, services, client.InNamespace(planned.GetNamespace())) != nil {
		return err // the caller retries
	}
	for i := range services.Items {
		for _, port := range services.Items[i].Spec.Ports {
			if port.NodePort != 0 && strings.Contains(err.Error(), fmt.Sprintf("nodePort: Invalid value: %d: %s", port.NodePort, portTaken)) {
				return fmt.Errorf("%w: Service %s uses this node port", err, services.Items[i].Name)
			}
		}
	}
	return err
}
