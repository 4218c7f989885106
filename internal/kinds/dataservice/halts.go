// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dataservice

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/guard"
	"d3os.com/d3os-operator/internal/kinds/dataservice/halt"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/object"
)

// halts plans the parts that may use the database without pods while it is switched, and until the one in use serves.
func (d *Databases) halts(ds *dsv1.DataService, planned *plan.Plan, parts []engine.Part, serves bool, in kinds.Inputs) error {
	owner := plan.OwnerOf(ds)
	for i := range parts {
		if !isHaltable(&planned.Components[i]) {
			continue
		}
		part := &parts[i]
		wasHalted, err := halt.IsAny(part.Objects, in.Lookup)
		if err != nil {
			return err
		}
		isSwitched := d.IsStopping || d.IsBarred || d.IsOther
		switch {
		case isSwitched || wasHalted && !serves:
			err = d.halt(part, owner, in)
		case wasHalted:
			d.IsStarting = true
			part.Objects, err = halt.Resume(part.Objects, in.Lookup, owner)
		}
		if err != nil {
			return err
		}
	}
	for i := range parts {
		if parts[i].Name == string(component.MySQL) && len(d.Halted) > 0 {
			parts[i].After = nil // else it could wait for one that is halted, and that one for it
		}
	}
	return nil
}

// halt gives a part the form without pods. That waits for no other part; that it gets them back does, as a new revision.
func (d *Databases) halt(part *engine.Part, owner object.Owner, in kinds.Inputs) (err error) {
	part.Objects, err = halt.Halt(part.Objects, in.Lookup, owner)
	if err != nil {
		return err
	}
	part.After, part.Revision = nil, object.Sum([]byte("halted "+part.Revision))
	part.Doubt = &engine.Doubt{} // not ready, and nothing that a person has to do
	part.Notes = append(part.Notes, "has no pods while the database is switched")
	d.Halted = append(d.Halted, haltedPart{part.Name, halt.Workloads(part.Objects)})
	remains, err := remainsOf(part.Name, halt.Workloads(part.Objects), in.Lookup, in.Pods)
	d.Remains = append(d.Remains, remains...)
	return err
}

// remainsOf lists what still runs of a halted part.
func remainsOf(name string, workloads []*unstructured.Unstructured, lookup halt.Lookup, pods func(part string) ([]*corev1.Pod, error)) (remains []string, err error) {
	for _, o := range workloads {
		live, err := lookup(o.GetKind(), o.GetName())
		if err != nil {
			return nil, err
		}
		if halt.Runs(live) {
			remains = append(remains, o.GetKind()+" "+o.GetName())
		}
	}
	found, err := pods(name)
	for _, pod := range found {
		if isAlive(pod) {
			remains = append(remains, "Pod "+pod.Name)
		}
	}
	return remains, err
}

// isAlive reports whether containers of a pod may run.
func isAlive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// otherPod returns a pod of a database of another name, asked of the API server; "" for none.
func otherPod(database string, in kinds.Inputs) (string, error) {
	pods, err := in.PodsLive(string(component.MySQL))
	if err != nil {
		return "", fmt.Errorf("look whether a pod of another database than %s is there: %w", database, err)
	}
	for _, pod := range pods {
		if guard.IsOther(database, pod) {
			return pod.Name, nil
		}
	}
	return "", nil
}
