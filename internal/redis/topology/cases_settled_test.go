// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"
)

// The next pod of a change is replaced only after all other pods have been ready for WellFor without a restart. If the
// change failed on a pod, the message names that pod.
func TestAChangeThatFailsGoesNoFurther(t *testing.T) {
	minute := func(s *scene) {
		s.wanted.WellFor = time.Minute
		each(func(n *Node) { n.WellFor = time.Hour })(s)
	}
	young := func(pod string) edit { return on(pod, func(n *Node) { n.WellFor = time.Second }) }
	killed := on("a-0-1", func(n *Node) { n.WellFor, n.Ended = time.Second, "container redis ended: OOMKilled" })
	rest := outdated("a-1-0", "a-1-1", "a-2-0", "a-2-1")
	holdAll(t, []expectation{
		row("all other pods have been ready for long enough", Complete, PhaseUpgrading, "DeletePod a-0-1", "", minute, outdated(six...)),
		row("the pod to replace has just become ready", Complete, PhaseUpgrading, "DeletePod a-0-1", "", minute, outdated(six...), young("a-0-1")),
		row("an updated replica has just become ready", Complete, PhaseUpgrading, "Wait", "a-0-1 must first be ready for 1m0s without a restart", minute, outdated("a-0-0", "a-1-0", "a-1-1", "a-2-0", "a-2-1"), young("a-0-1")),
		row("the former master has just become ready", Complete, PhaseUpgrading, "Wait", "a-0-0 must first be ready for 1m0s", minute, rest, young("a-0-0")),
		row("the former master has been ready for long enough", Complete, PhaseUpgrading, "DeletePod a-1-1", "", minute, rest, on("a-0-0", func(n *Node) { n.WellFor = time.Minute })),
		row("the change failed on a pod", Complete, PhaseUpgrading, "Wait", "the latest change of the pods failed on a-0-1 (container redis ended: OOMKilled): revert or correct that change", minute, rest, killed),
		row("the change failed on a pod, and was corrected", Complete, PhaseUpgrading, "DeletePod a-0-1", "", minute, outdated(six...), killed),
	})
}
