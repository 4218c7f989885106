// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Planned returns the number of pods of each shard: the wanted number or the recorded number, whichever is higher. Decide lowers the recorded
// number.
func Planned(wanted []int, record Record) []int {
	planned := make([]int, max(len(wanted), len(record.Shards)))
	copy(planned, wanted)
	for i, pods := range record.Shards {
		planned[i] = max(planned[i], pods)
	}
	return planned
}

// MayRun returns how many of a shard's planned pods may run. While the cluster is being parked, only the first pods may
// run. Once it is parked, none may run.
func (r *Record) MayRun(shard, planned int) int {
	switch {
	case r.Parked:
		return 0
	case shard < len(r.Pods):
		return min(planned, r.Pods[shard])
	}
	return planned
}

// PhaseAfter returns the phase to show after the phase previous. A model does not remember the change that is in
// progress: when the last pod of a rolling update is replaced, and until its replica is linked, the model only shows
// missing redundancy. So a cluster that serves all slots stays in Creating, Scaling or Upgrading until it is Running.
func PhaseAfter(previous string, m Model) string {
	if m.Phase != PhaseFailed || m.Served < Slots {
		return m.Phase
	}
	switch previous {
	case PhaseCreating, PhaseScaling, PhaseUpgrading:
		return previous
	default:
		return m.Phase
	}
}
