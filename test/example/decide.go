// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package example

import "fmt"

// Record is the operator's record of a ledger. It stores the state that the members cannot show if their volumes are lost.
type Record struct {
	// Data identifies the data; empty until data exists.
	Data string `json:"data,omitempty"`
}

// Member is a pod of a ledger.
type Member struct {
	Pod, UID, IP string
	Problem      string // why the member does not answer; empty if the member answers
	Data         string // identifies the data on the member's volume; empty without data
}

// Observation is the observed state of a ledger.
type Observation struct {
	Record   Record
	NewData  string   // the ID of the data to create; empty until the record can be written
	Members  []Member // the pods that exist, by ordinal
	Waiting  bool     // Kubernetes has not processed the latest StatefulSet yet
	Password string

	verdict Verdict // the result of Decide
}

// State describes a ledger.
type State string

// The states of a ledger.
const (
	Waiting   State = "Waiting"   // the decision waits for pods or for the record
	Empty     State = "Empty"     // no data was created yet
	Found     State = "Found"     // the members have data that is not in the record
	Copying   State = "Copying"   // a member has no data
	Whole     State = "Whole"     // all members have the data
	DataLost  State = "DataLost"  // no volume has the recorded data
	OtherData State = "OtherData" // a member has other data than the record or another member
)

// Action names a step.
type Action string

// The actions of a ledger.
const (
	Create Action = "Create" // creates the data of the first member
	Write  Action = "Record" // writes the record
	Copy   Action = "Copy"   // copies the data to a member
)

// Step is one change of a member or of the record.
type Step struct {
	Action   Action
	Message  string
	To, From Member
	Data     string
}

// Verdict is the result of Decide.
type Verdict struct {
	State   State
	Message string // the reason why there is no step
	Step    *Step  // nil if there is nothing to do, or only a user can act
}

// Decide returns the state of a ledger and the next step. Rules run in order: each rule relies on the earlier rules. A ledger with a record
// gets no new data, because its empty volumes mean that data was lost.
func Decide(replicas int, obs Observation) Verdict {
	if wait := waits(replicas, obs); wait != "" {
		return Verdict{State: Waiting, Message: wait}
	}
	data, source := obs.Record.Data, (*Member)(nil)
	for i := range obs.Members {
		m := &obs.Members[i]
		if m.Data == "" {
			continue
		}
		if data != "" && m.Data != data {
			return Verdict{State: OtherData, Message: fmt.Sprintf("pod %s has data %s, but the ledger has %s: delete the claim that is wrong", m.Pod, m.Data, data)}
		}
		data, source = m.Data, m
	}
	first := obs.Members[0]
	switch {
	case source == nil && data != "":
		return Verdict{State: DataLost, Message: fmt.Sprintf("no pod has data %s: restore a volume, or remove annotation %s to start empty", data, records.Annotation)}
	case source == nil && obs.NewData == "":
		return Verdict{State: Waiting, Message: "waiting for the record"}
	case source == nil:
		return Verdict{State: Empty, Step: &Step{Action: Create, Message: "create the data of " + first.Pod, To: first, Data: obs.NewData}}
	case obs.Record.Data == "":
		return Verdict{State: Found, Step: &Step{Action: Write, Message: "record data " + data, Data: data}}
	}
	for _, m := range obs.Members {
		if m.Data == "" {
			return Verdict{State: Copying, Step: &Step{Action: Copy, Message: fmt.Sprintf("copy the data of %s to %s", source.Pod, m.Pod), To: m, From: *source, Data: data}}
		}
	}
	return Verdict{State: Whole}
}

// waits returns the condition that decisions wait for, or "".
func waits(replicas int, obs Observation) string {
	if obs.Waiting || len(obs.Members) != replicas {
		return fmt.Sprintf("waiting for Kubernetes: %d of %d pods exist", len(obs.Members), replicas)
	}
	for _, m := range obs.Members {
		if m.Problem != "" {
			return "pod " + m.Pod + ": " + m.Problem
		}
	}
	return ""
}
