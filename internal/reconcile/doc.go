// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile reconciles resources of any kind. A pass is one call of Reconciler.Reconcile for one resource. The
// files follow a pass:
//
//   - kinds.go is the contract of a kind: Plan, Observe, Decide, Status.
//   - reconciler.go, setup.go and pass.go run a pass. A pass never blocks: it applies the parts that may be applied now, reports in the
//     status why the others wait, and returns. A watch event or a timer starts the next pass.
//   - plan.go, engine.go, part.go and prune.go make the cluster follow a plan: they apply its parts in the order of their dependencies,
//     remove what is no longer planned, and report the state of each part.
//   - step.go takes one step of a decision, only while this replica of the operator holds the lease.
//   - gate.go and pace.go limit concurrent rollouts when a new version of the operator changes resources: at most --max-rollouts at once,
//     and no further one after a resource has become Degraded.
//   - revision.go and history.go store the earlier specs of a resource as ControllerRevisions.
//
// It imports no API type of the operator: the same code reconciles every kind.
package reconcile
