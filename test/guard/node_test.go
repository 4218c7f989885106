// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// Nobody but a person may say that what ran on a node that is away has ended: the status names the node and what to do, the
// operator deletes no pod, and the database goes on where it was when the node is back.
func TestANodeThatIsAway(t *testing.T) {
	forEach(t, func(e *env, op *stage.Operator) {
		pod, mark := e.pod(), op.Mark()
		e.Must(e.pods.StopNode(e.Ctx, pod.Spec.NodeName))
		words := []string{"pod " + pod.Name, "node " + pod.Spec.NodeName, " since ", "kubectl taint node " + pod.Spec.NodeName}
		e.says("NodeUnreachable", words...)
		e.delete(&corev1.Pod{}, pod.Name) // as Kubernetes does after five minutes
		e.never("the pod is gone", func() bool {
			return !slices.ContainsFunc(harness.Every[*corev1.Pod](e.Journal), func(p *corev1.Pod) bool { return p.UID == pod.UID })
		})
		e.says("NodeUnreachable", words...)
		for _, sent := range op.Since(mark, harness.Sent.WritesObject) {
			e.Errorf("the operator wrote: %s", sent)
		}
		e.Must(e.pods.StartNode(e.Ctx, pod.Spec.NodeName))
		e.isReady()
		equal(e.T, "starts", text(e.starts(database)), "5.7.44 5.7.44")
	})
}
