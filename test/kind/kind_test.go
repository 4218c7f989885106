// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
)

//go:embed testdata/charts
var charts embed.FS

// part is the one part of a Notebook: the value of the name label on all of its objects.
const part = "notebook"

// What the two steps write.
const (
	// markFormatted is on a volume claim that may be used. It stays as long as the volume does.
	markFormatted = "example.d3os-product.com.d3os/formatted"
	// markOpen is on the ConfigMap with the title: the UID of the claim that is open.
	markOpen = "example.d3os-product.com.d3os/open"
)

// The steps.
const (
	stepFormat = "Format"
	stepOpen   = "Open"
)

// The phases.
const (
	phaseCreating = "Creating"
	phaseWorking  = "Working"
	phaseReady    = "Ready"
	phasePaused   = "Paused"
	phaseFailed   = "Failed"
	phaseDeleting = "Deleting"
)

// notebooks is the kind Notebook.
type notebooks struct {
	gvk      schema.GroupVersionKind
	renderer *render.Renderer
	client   client.Client
}

var _ kinds.Kind[*Notebook, world] = &notebooks{}

// register makes an operator carry out Notebooks of an API group.
func register(op *manager.Operator, gv schema.GroupVersion) error {
	addToScheme(op.GetScheme(), gv)
	files, err := fs.Sub(charts, "testdata/charts")
	if err != nil {
		return err
	}
	renderer, err := render.NewFrom(files, "v1.29.0", op.GetScheme())
	if err != nil {
		return err
	}
	return manager.Register(context.Background(), op, &notebooks{gvk: gv.WithKind("Notebook"), renderer: renderer, client: op.Parts.Client})
}

func (k *notebooks) GVK() schema.GroupVersionKind { return k.gvk }

func (*notebooks) New() *Notebook { return &Notebook{} }

func (*notebooks) Paused(n *Notebook) bool { return n.Spec.Paused }

// Forget has nothing to do: nothing is remembered.
func (*notebooks) Forget(string, string) {}

// Plan is the chart's objects, as one part.
func (k *notebooks) Plan(n *Notebook, _ kinds.Inputs) (*engine.Plan, error) {
	if n.Spec.Title == "" && len(n.Spec.Pages) > 0 {
		return nil, &kinds.Mistake{Reason: kinds.ReasonInvalidSpec, Err: errors.New("spec.title: pages need a title")}
	}
	owner := kinds.OwnerOf(k, n)
	rendered, err := k.renderer.Render(render.Release{Name: n.Name, Namespace: n.Namespace},
		[]render.Part{{Name: part, Chart: "notebook", Values: values(n, owner)}})
	if err != nil {
		return nil, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	planned := engine.Part{Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", Objects: rendered[0]}
	if err := planned.Finish(owner); err != nil {
		return nil, &kinds.Mistake{Reason: kinds.ReasonRenderFailed, Err: err}
	}
	return &engine.Plan{Parts: []engine.Part{planned}}, nil
}

// values are those of the chart.
func values(n *Notebook, owner object.Owner) map[string]any {
	return map[string]any{"title": n.Spec.Title, "pages": n.Spec.Pages, "labels": owner.Labels(part)}
}

// world is what is observed: plain data.
type world struct {
	Claim mark // its Value is whether the volume is formatted
	Title mark // its Value is the UID of the claim that is open
}

// mark is an object that a step writes to, as it was seen.
type mark struct {
	UID     types.UID // "" while the object does not exist
	Version string    // what a step acts on must still be of this resource version
	Value   string    // what a step wrote
}

// Observe reads the marks that the steps leave.
func (k *notebooks) Observe(ctx context.Context, n *Notebook, _ engine.Seen, _ kinds.Pods) (world, error) {
	var w world
	var err error
	if w.Claim, err = k.mark(ctx, n, claimOf(n), markFormatted); err != nil {
		return w, err
	}
	w.Title, err = k.mark(ctx, n, titleOf(n), markOpen)
	return w, err
}

func (k *notebooks) mark(ctx context.Context, n *Notebook, o *unstructured.Unstructured, key string) (mark, error) {
	err := k.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, fmt.Errorf("look at %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if !kinds.OwnerOf(k, n).Names(o) {
		return mark{}, nil
	}
	return mark{UID: o.GetUID(), Version: o.GetResourceVersion(), Value: o.GetAnnotations()[key]}, nil
}

func claimOf(n *Notebook) *unstructured.Unstructured {
	o := object.Empty(object.ClaimKind)
	o.SetNamespace(n.Namespace)
	o.SetName("data-" + n.Name + "-0")
	return o
}

func titleOf(n *Notebook) *unstructured.Unstructured {
	o := object.Empty(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	o.SetNamespace(n.Namespace)
	o.SetName(n.Name)
	return o
}

// Decide formats the volume of a running pod, once, and then opens it. Until the pod is ready there
// is nothing to do; its StatefulSet brings the next pass.
func (k *notebooks) Decide(n *Notebook, seen engine.Seen, w world) kinds.Decision {
	if waits(seen, w) != "" {
		return kinds.Decision{}
	}
	var steps []day2.Step
	if w.Claim.Value == "" {
		steps = append(steps, k.write(stepFormat, "format the volume of "+claimOf(n).GetName(), claimOf(n), w.Claim, markFormatted, "true"))
	}
	if w.Title.Value != string(w.Claim.UID) {
		steps = append(steps, k.write(stepOpen, "open the notebook "+n.Name, titleOf(n), w.Title, markOpen, string(w.Claim.UID)))
	}
	return kinds.Decision{Steps: steps}
}

// waits returns what the steps wait for, or "". Each kind has a watch of its own: the pod may be seen before its claim is.
func waits(seen engine.Seen, w world) string {
	switch {
	case len(seen.Parts) == 0 || !seen.Parts[0].Applied || !seen.Parts[0].Health.Settled:
		return "the pod is not ready"
	case w.Claim.UID == "" || w.Title.UID == "":
		return "the volume claim or the title has not been seen yet"
	}
	return ""
}

// write is a step that leaves a mark on an object. The API server refuses it unless the object is
// still as it was observed.
func (k *notebooks) write(name, message string, o *unstructured.Unstructured, seen mark, key, value string) day2.Step {
	return day2.Step{Name: name, Message: message, Do: func(ctx context.Context) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": seen.UID, "resourceVersion": seen.Version, "annotations": map[string]string{key: value},
		}})
		if err != nil {
			return err
		}
		return k.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldManager))
	}}
}

// Status says how far a Notebook is.
func (*notebooks) Status(n *Notebook, seen kinds.Seen[world], now metav1.Time) {
	s := &n.Status
	s.ObservedGeneration, s.Step, s.Ready = seen.Generation, "", "0/1"
	var observed world
	if seen.Observed != nil {
		observed = *seen.Observed
	}
	waiting := waits(seen.Seen, observed)
	var reason, message string
	switch {
	case seen.Deleting:
		s.Phase, message = phaseDeleting, "it is being deleted"
	case seen.Failure != nil:
		s.Phase, reason, message = phaseFailed, seen.Failure.Reason, seen.Failure.Message
	case seen.Paused:
		s.Phase, message = phasePaused, "spec.paused is set"
	case len(seen.Decision.Steps) > 0:
		next := seen.Decision.Steps[0]
		s.Phase, s.Step, message = phaseWorking, next.Name, next.Message
	case waiting != "":
		s.Phase, message = phaseCreating, waiting
	default:
		s.Phase, s.Ready, message = phaseReady, "1/1", "the notebook is open"
	}
	if reason == "" {
		reason = s.Phase
	}
	ready := metav1.ConditionFalse
	if s.Phase == phaseReady {
		ready = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: "Ready", Status: ready, Reason: reason, Message: message, LastTransitionTime: now, ObservedGeneration: seen.Generation,
	})
}

// Summary is for events and metrics.
func (*notebooks) Summary(n *Notebook) kinds.Summary {
	s := &n.Status
	summary := kinds.Summary{
		Phase: s.Phase, Generation: s.ObservedGeneration, Ready: s.Phase == phaseReady, ReadyText: "the notebook is open",
		New: s.Phase == "" || s.Phase == phaseCreating || s.Phase == phaseWorking, Urgent: s.Step != "" || s.Phase == phaseReady,
		Parts: []metrics.Part{{Name: part, Ready: s.Phase == phaseReady}}, Conditions: s.Conditions,
	}
	if c := meta.FindStatusCondition(s.Conditions, "Ready"); c != nil && s.Phase == phaseFailed {
		summary.Problem, summary.ProblemReason, summary.ProblemField = c.Message, c.Reason, "status.conditions"
	}
	return summary
}
