// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// importPort is the port of the agent during an import.
const importPort = "8080"

// SeeImport returns the state of the import into the database in use, or nil if the spec declares no import or a switch to another
// database. pods are the pods of that database. SeeImport queries only a pod that the database's StatefulSet controls.
func (d *Databases) SeeImport(ctx context.Context, pods []*corev1.Pod) (*Import, error) {
	if d == nil || d.spec.MySQL == nil || d.spec.ImportFrom == nil || d.Active != d.Wanted {
		return nil, nil
	}
	i := &Import{Declared: d.spec.ImportFrom, Accepted: d.spec.AcceptLoss, Pod: importing(pods)}
	if i.Pod == nil {
		i.IsDone, i.Failed = d.records[d.Active] != nil, failure(pods)
		return i, nil
	}
	set, err := d.in.Lookup(object.StatefulSetKind.Kind, d.Active)
	if err != nil || set == nil || !metav1.IsControlledBy(i.Pod, set) || i.Pod.Status.PodIP == "" {
		return i, err
	}
	if state := reconcile.StateOf[contract.Import](ctx, i.Pod.Status.PodIP, importPort); state != nil && state.Phase != "" {
		i.State = state
	}
	return i, nil
}

// Steps returns the write that requests the cut-over from a pod, or revokes the request.
func (i *Import) Steps(c client.Client) []reconcile.Step {
	if !i.IsRunning() {
		return nil
	}
	want, differs := i.ticket()
	if !differs {
		return nil
	}
	var value any // nil removes the annotation
	message := "let the import of " + i.source() + " continue"
	if want != "" {
		value, message = want, "end the import of "+i.source()
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: i.Pod.Namespace, Name: i.Pod.Name}}
	return []reconcile.Step{{Name: "CutOver", Message: message, Do: func(ctx context.Context) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": i.Pod.UID, "annotations": map[string]any{object.AnnotationTicket: value}}})
		if err != nil {
			return err
		}
		if err := c.Patch(ctx, pod, client.RawPatch(client.Merge.Type(), patch), client.FieldOwner(apply.FieldManager)); err != nil {
			return fmt.Errorf("annotate pod %s: %w", pod.Name, err)
		}
		return nil
	}}}
}
