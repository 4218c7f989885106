// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/halt"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Halt plans 0 pods for the services that use the database, during a switch and until the database in use serves. own
// is the part of the database.
func (d *Databases) Halt(users []*reconcile.Part, own *reconcile.Part, serves bool) error {
	for _, part := range users {
		wasHalted, err := halt.Switch.IsAny(part.Objects, d.in.Lookup)
		if err != nil {
			return err
		}
		isSwitched := d.IsStopping || d.IsBarred || d.IsOther
		switch {
		case isSwitched || wasHalted && !serves:
			err = d.halt(part)
		case wasHalted:
			d.IsStarting = true
			part.Objects, err = halt.Switch.Resume(part.Objects, d.in.Lookup, d.spec.Owner)
		}
		if err != nil {
			return err
		}
	}
	if own != nil && len(d.Halted) > 0 {
		own.After = nil // otherwise the database could wait for a halted part, which waits for the database
	}
	return nil
}

// halt plans 0 pods for a part. The halt waits for no other part. The later start waits for other parts, because it is
// a new revision.
func (d *Databases) halt(part *reconcile.Part) (err error) {
	part.Objects, err = halt.Switch.Halt(part.Objects, d.in.Lookup, d.spec.Owner)
	if err != nil {
		return err
	}
	part.After, part.Revision = nil, object.Sum([]byte("halted "+part.Revision))
	part.Doubt = &reconcile.Doubt{} // not ready, but no user has to act
	part.Notes = append(part.Notes, health.Info("has no pods while the database is switched"))
	d.Halted = append(d.Halted, haltedPart{part.Name, halt.Workloads(part.Objects)})
	remains, err := remainsOf(part.Name, halt.Workloads(part.Objects), d.in.Lookup, d.in.Pods)
	d.Remains = append(d.Remains, remains...)
	return err
}

// remainsOf lists the pods and Jobs of a halted part that still run.
func remainsOf(name string, workloads []*unstructured.Unstructured, lookup object.Lookup, pods func(part string) ([]*corev1.Pod, error)) ([]string, error) {
	found, err := pods(name)
	if err != nil {
		return nil, err
	}
	return halt.Remains(workloads, found, lookup)
}

// otherPod returns the name of a pod of another database, or "". It reads from the API server.
func otherPod(database string, in reconcile.Inputs) (string, error) {
	pods, err := in.PodsLive(Component)
	if err != nil {
		return "", fmt.Errorf("check whether a pod of another database than %s exists: %w", database, err)
	}
	for _, pod := range pods {
		if IsOther(database, pod) && !isProbe(pod) {
			return pod.Name, nil
		}
	}
	return "", nil
}
