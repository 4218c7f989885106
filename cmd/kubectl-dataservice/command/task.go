// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
)

// task is a resource for one operation. A command creates the resource and follows it to its end.
type task struct {
	resource schema.GroupVersionResource
	kind     string
	object   client.Object
	noWait   bool
	lost     string         // end of the error after a deletion of the resource: names the objects that were deleted with it
	good     backupv1.Phase // phase of a successful task
	show     func(live *unstructured.Unstructured) (text string, err error)
}

// shows converts a function that formats a Go type to a function that formats the unstructured resource of a task.
func shows[T any](screen func(*T) string) func(*unstructured.Unstructured) (string, error) {
	return func(live *unstructured.Unstructured) (string, error) {
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &typed); err != nil {
			return "", fmt.Errorf("read %s %s: %w", live.GetKind(), live.GetName(), err)
		}
		return screen(&typed), nil
	}
}

// carryOut creates the resource of a task, and prints its progress until it has succeeded or failed.
func (p *cli) carryOut(ctx context.Context, c *cluster, t task) error {
	if err := c.create(ctx, t); err != nil {
		return err
	}
	name := t.object.GetName()
	err := p.print(fmt.Sprintf("%s %s was created; it continues when this command ends: kubectl -n %s get %s %s\n", t.kind, name, c.Namespace, strings.ToLower(t.kind), name))
	if err != nil || t.noWait {
		return err
	}
	printed := ""
	show := func(live *unstructured.Unstructured) (final bool, err error) {
		text, err := t.show(live)
		if err == nil && text != printed {
			printed = text
			err = p.print(text)
		}
		if err != nil {
			return false, err
		}
		phase, _, err := unstructured.NestedString(live.Object, "status", "phase")
		if err == nil && backupv1.Phase(phase) == backupv1.PhaseFailed {
			err = errNo
		}
		return backupv1.Phase(phase) == t.good, err
	}
	for {
		live, err := c.Dynamic.Resource(t.resource).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read %s %s/%s: %w", t.kind, c.Namespace, name, err)
		}
		if final, err := show(live); final || err != nil {
			return err
		}
		if final, err := c.follow(ctx, t, live, show); final || err != nil {
			return err
		}
	}
}

func (c *cluster) create(ctx context.Context, t task) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t.object)
	if err != nil {
		return err
	}
	delete(content, "status")
	_, err = c.Dynamic.Resource(t.resource).Namespace(c.Namespace).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("create %s %s/%s: %w", t.kind, c.Namespace, t.object.GetName(), err)
	}
	return nil
}

// follow prints each change of a task's resource until the API server ends the watch.
func (c *cluster) follow(ctx context.Context, t task, from *unstructured.Unstructured, show func(*unstructured.Unstructured) (bool, error)) (final bool, err error) {
	w, err := c.Dynamic.Resource(t.resource).Namespace(c.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + from.GetName(), ResourceVersion: from.GetResourceVersion(),
	})
	if err != nil {
		return false, fmt.Errorf("watch %s %s/%s: %w", t.kind, c.Namespace, from.GetName(), err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		live, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case !ok || event.Type == watch.Error:
			return false, nil // the caller reads the resource again
		case event.Type == watch.Deleted:
			return false, fmt.Errorf("%s %s/%s was deleted, %s", t.kind, c.Namespace, from.GetName(), t.lost)
		}
		if final, err := show(live); final || err != nil {
			return final, err
		}
	}
	return false, ctx.Err()
}
