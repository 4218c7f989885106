// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package why reads the corpus of faults: changes of a cluster, and the expected output of `kubectl dataservice why` and MESSAGE of
// `kubectl get`. cmd/kubectl-dataservice runs it.
package why

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

// Faults is the path of the corpus.
const Faults = "test/why/faults.yaml"

// Fault is a row of the corpus. In all texts NAMESPACE stands for the namespace of the row, and NOW for the time.
type Fault struct {
	Name string `json:"name"`
	// Shows lists the findings that the row would detect if they came back: W1 to W15 of issue 36.
	Shows []string `json:"shows"`
	// Role names the user's ClusterRole; default: view.
	Role string `json:"role"`
	// Down means that no operator runs at the start.
	Down bool `json:"down"`
	// Agent is the image of the agent; default: unknown to the operator, unless Ask names another kind.
	Agent string `json:"agent"`
	// Before is created before the DataService.
	Before []map[string]any `json:"before"`
	// Spec changes the small platform. No platform is created if Ask names another kind.
	Spec map[string]any `json:"spec"`
	// Ready makes the test wait, before the steps in Then, until the platform is ready.
	Ready bool   `json:"ready"`
	Then  []Step `json:"then"`
	// Ask is the argument of why; default: the platform.
	Ask []string `json:"ask"`
	// Names are words that line 1 must contain. Line 2 must begin with Look: a kind and the start of a name.
	Names []string `json:"names"`
	Look  string   `json:"look"`
	// Message lists words that the first 120 characters of MESSAGE must contain. MESSAGE begins with the first one.
	// Default: Names, and MESSAGE begins as line 1 does.
	Message []string `json:"message"`
	// Silent is the reason why no operator can write the cause to MESSAGE. With a reason, MESSAGE is not compared.
	Silent string `json:"silent"`
	// Do is a part of the advice of why.
	Do string `json:"do"`
	// After is the time in seconds until the state counts as a fault; default: 0.
	After int `json:"after"`
	// Well means that there is no problem at any time, so the exit code is 0.
	Well bool `json:"well"`
}

// Step is one change of the cluster. One of its fields is set.
type Step struct {
	Change map[string]any  `json:"change"` // the spec of the platform, as a merge patch
	Create map[string]any  `json:"create"`
	Delete *Object         `json:"delete"`
	Patch  *Patch          `json:"patch"`
	Pod    *Pod            `json:"pod"`
	Event  *map[string]any `json:"event"`
	Ready  bool            `json:"ready"` // wait until the platform is ready
	Well   bool            `json:"well"`  // why reports no problem at this time
	Stop   string          `json:"stop"`  // operator: end the operator
	Start  string          `json:"start"` // operator: start an operator
	Lose   string          `json:"lose"`  // the name of a claim: its PersistentVolume is deleted
	End    string          `json:"end"`   // a component: its pod, on the node without a kubelet, gets a second to end
}

// Object names an object of the namespace, or an object of the cluster.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Patch is a merge patch of an object, or of its status.
type Patch struct {
	Object `json:",inline"`

	Status bool           `json:"status"`
	With   map[string]any `json:"with"`
}

// Pod writes the status of a component's pod, as a kubelet would on node "still".
type Pod struct {
	Component string         `json:"component"`
	Status    map[string]any `json:"status"`
	// Volume is the use of the pod's volume, as the pod reports it. If it is empty, the pod does not answer.
	Volume *Volume `json:"volume"`
}

// Volume is the use of a file system.
type Volume struct {
	Used     resource.Quantity `json:"used"`
	Capacity resource.Quantity `json:"capacity"`
}

// IsWithoutOperator reports whether no operator runs at the end of a row.
func (f *Fault) IsWithoutOperator() bool {
	without := f.Down
	for i := range f.Then {
		without = (without || f.Then[i].Stop != "") && f.Then[i].Start == ""
	}
	return without
}

// Read returns all rows.
func Read() ([]Fault, error) {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), Faults))
	if err != nil {
		return nil, fmt.Errorf("read the corpus: %w", err)
	}
	var faults []Fault
	if err := yaml.UnmarshalStrict(data, &faults); err != nil {
		return nil, fmt.Errorf("read %s: %w", Faults, err)
	}
	return faults, nil
}
