// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// What others add and the DataService does not declare stays, also when the object is written again. What may be added is the
// concern of internal/apply.
func TestAdditionsOfOthersStay(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	live := get(e, &appsv1.Deployment{}, "auth")
	metav1.SetMetaDataAnnotation(&live.Spec.Template.ObjectMeta, "kubectl.kubernetes.io/restartedAt", "now")
	spec := &live.Spec.Template.Spec
	spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: "before", Image: "registry.example/before:v1"})
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: "example.org/x", Operator: corev1.TolerationOpExists})
	mark := op.Mark()
	e.Must(api.Update(e.Ctx, live))
	rolledOut := func() error {
		pods := e.pods("auth")
		if len(pods) != 1 {
			return fmt.Errorf("%d pods", len(pods))
		}
		p := pods[0]
		tolerates := slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "example.org/x" })
		annotated := p.Annotations["kubectl.kubernetes.io/restartedAt"] == "now"
		return stage.Unless(annotated && len(p.Spec.InitContainers) == 1 && tolerates, "additions are missing")
	}
	e.Until("the additions are rolled out", rolledOut)
	e.Ready(name)
	e.never("something is written", func() bool { return len(op.Since(mark, harness.Sent.WritesObject)) > 0 })

	e.ChangeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.Until("the change is rolled out", func() error { return stage.Unless(e.runs("auth", "registry.example/auth:v2"), "it is not") })
	e.Until("the additions outlive it", rolledOut)
	e.equal("objects written", harness.Objects(op.Since(mark, harness.Sent.WritesObject)), []string{"Deployment/auth"})
}

// Another writer that keeps changing what the DataService declares is named, and not fought at
// full speed; when it gives up, the declared value is back.
func TestContestedField(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small())
	mark, began := op.Mark(), time.Now()
	ctx, giveUp := context.WithCancel(e.Ctx)
	var flipper sync.WaitGroup
	defer flipper.Wait()
	defer giveUp()
	flipper.Go(func() {
		for ctx.Err() == nil {
			moved := e.Next()
			if live := harness.Lookup[*appsv1.Deployment](e.Journal, "auth"); *live.Spec.Replicas == 1 {
				// It may have been changed meanwhile; the next event brings the next attempt.
				_ = api.Patch(ctx, live.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`)), client.FieldOwner("autoscaler"))
			}
			select {
			case <-moved:
			case <-ctx.Done():
			}
		}
	})
	e.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonContested, "Deployment auth", "another writer")
	fought := len(op.Since(mark, harness.Sent.WritesObject))
	// Eight within twenty seconds are free (internal/apply/contest.go). A busy machine may take longer for eight.
	if most := 12 + 8*int(time.Since(began)/(20*time.Second)); fought > most {
		t.Errorf("%d corrections before it was noticed, at most %d", fought, most)
	}
	contested := op.Mark()
	e.never("it is fought at full speed", func() bool { return len(op.Since(contested, harness.Sent.WritesObject)) > 1 })
	giveUp()
	flipper.Wait()
	e.Until("the declared value is back", func() error {
		return stage.Unless(ptr.Deref(harness.Lookup[*appsv1.Deployment](e.Journal, "auth").Spec.Replicas, 0) == 1, "it is not")
	})
	e.Ready(name)
	if n := len(op.Since(contested, harness.Sent.WritesObject)); n > 4 {
		t.Errorf("%d corrections after it was noticed", n)
	}
}
