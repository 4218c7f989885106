// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// published returns changes that publish web by an Ingress of a class.
func published(class string) fields {
	return fields{"web": fields{"ingress": fields{"host": "data.example.com", "className": class}}}
}

// If the IngressClass of an Ingress does not exist, the service runs, and the status names the class. The creation and the deletion of the
// class each cause one write of the status. A restart of the operator causes none.
func TestIngressClass(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(small(published(e.Namespace)))
	isNoted := func() error {
		if err := e.mentions(name, "web", "Ingress web: "+health.ReasonNoIngressClass, e.Namespace); err != nil {
			return err
		}
		const start = "web: Ingress web: " + health.ReasonNoIngressClass
		return stage.Unless(strings.HasPrefix(e.DataService(name).Status.Message, start), e.DataService(name).Status.Message)
	}
	isGone := func() error {
		message := e.componentStatus(name, "web").Message
		return stage.Unless(message == "", message)
	}
	e.Until("the missing class is named", isNoted)
	e.Must(e.component(name, "web", dsv1.PhaseRunning))
	e.Rests(op, time.Second)

	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/ingress"}}
	writesOnce := func(mark int, done func() error) {
		e.Helper()
		e.Until("the status follows the class", done)
		e.Rests(op, time.Second)
		if sent := op.Since(mark, isWrite); len(sent) != 1 {
			t.Errorf("writes: %v", sent)
		}
	}
	mark := op.Mark()
	e.Must(api.Create(e.Ctx, class))
	writesOnce(mark, isGone)
	mark = op.Mark()
	e.Must(api.Delete(e.Ctx, class))
	writesOnce(mark, isNoted)

	op.Stop()
	op = e.Start()
	e.Rests(op, time.Second)
	e.Must(isNoted())
	class.ResourceVersion = ""
	e.Must(api.Create(e.Ctx, class))
	writesOnce(0, isGone)
	e.Must(api.Delete(e.Ctx, class))
}

func isWrite(r harness.Sent) bool { return r.Writes() }
