// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
)

// releasedPrefix begins the name of a port that ReleaseNodePorts adds for the time between its two writes.
const releasedPrefix = "d3os-released-"

// ReleaseNodePorts makes a Service give up node ports: the API server chooses others for the ports that have them. It gives a port
// that is written without a node port the one that it had, unless another port of the Service has that now. So the first write
// moves each number to a port of no use, and the second removes that port. One that an earlier call left is removed, too.
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

// unusedPort returns the first number from one on downwards that is no port of a Service.
func unusedPort(ports []map[string]any, from int64) int64 {
	for slices.ContainsFunc(ports, func(port map[string]any) bool { return port["port"] == from }) {
		from--
	}
	return from
}
