// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard watches over the data of a database, as far as the operator can see it: it remembers which volume has the
// data, doubts a database that runs on another one, and brings the guard of the agent into pods without a restart. The last
// word is that guard's, in the pod (cmd/agent), because Kubernetes starts pods without the operator. It is pure.
package guard

import (
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/health"
)

// The keys of a record, a ConfigMap that the agent's guard reads as files.
const (
	keyAllowServer = "allowServer" // a person's: the release series that may start on data of another one
	keyClaim       = "claim"       // UID of the claim with the data
	keyID          = "id"          // of the mark on the volume; missing without a guard in the pod
	keyReplacedBy  = "replacedBy"  // the database that took its place: no server starts
	keyReplacedAt  = "replacedAt"  // when it did; missing for a database that was never in use
	keySwitch      = "switch"      // the number of the write that said so
)

// The reasons of doubts.
const (
	ReasonDataLost = "DataLost"
	// ReasonVolumeBeingDeleted: the volume with the data goes as soon as its pod ends.
	ReasonVolumeBeingDeleted = "VolumeBeingDeleted"
)

const recordSuffix = "-data"

// RecordName returns the name of a database's record.
func RecordName(database string) string { return database + recordSuffix }

// ClaimName returns the name of a database's claim.
func ClaimName(database string) string { return "data-" + database + "-0" }

// Database is a database and what there is of it.
type Database struct {
	Name string
	// HasVolume reports whether its data outlives its pods.
	HasVolume bool
	// Stopped reports whether it is to have no pod.
	Stopped bool

	// Claim is the one of the database's name, whatever its labels; Record is the operator's. Nil for none.
	Claim, Record *unstructured.Unstructured
	Pods          []*corev1.Pod
}

// IsClaimNeeded reports whether something is decided by the claim, so that it has to be known for certain that there is none.
func (d *Database) IsClaimNeeded() bool {
	return d.HasVolume && (d.Record != nil || d.readyPod() != nil)
}

// Recorded returns the data of the record as it should be, or nil for no record. It is made when the database has become
// ready for the first time and before anybody may use it. It changes only with a proof in the pod that the data is the same;
// it goes when a person deletes it, and does not come back before the database is ready again.
func (d *Database) Recorded() map[string]string {
	var record map[string]string
	if d.Record != nil {
		live, _, _ := unstructured.NestedStringMap(d.Record.Object, "data")
		record = map[string]string{}
		for _, key := range []string{keyClaim, keyID, keyAllowServer, keyReplacedBy, keyReplacedAt, keySwitch} {
			put(record, key, live[key])
		}
	}
	pod := d.readyPod()
	if !d.HasVolume || pod == nil {
		return record
	}
	claim, id := d.claimUID(), reportedID(pod)
	switch {
	case isBlank(record) && (claim != "" || id != ""):
		if record == nil {
			record = map[string]string{}
		}
		put(record, keyClaim, claim)
		put(record, keyID, id)
	case isBlank(record) || id == "":
	case record[keyID] == id:
		put(record, keyClaim, claim)
	case record[keyID] == "" && record[keyClaim] == claim:
		put(record, keyID, id)
	}
	return record
}

// isBlank reports whether a record names no data.
func isBlank(record map[string]string) bool { return record[keyClaim] == "" && record[keyID] == "" }

func put(record map[string]string, key, value string) {
	if value != "" {
		record[key] = value
	}
}

// Doubt is a doubt about a database. Hold: what runs is not changed, and nothing is made that could write.
type Doubt struct {
	Culprit health.Culprit // empty while there is nothing that a person should know
	Hold    bool
}

// Doubt returns why a database is not taken for ready, or nil.
func (d *Database) Doubt() *Doubt {
	record := d.Recorded()
	claim := ClaimName(d.Name)
	doubt := func(hold bool, reason, format string, args ...any) *Doubt {
		return &Doubt{Hold: hold, Culprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: claim, Reason: reason, Message: fmt.Sprintf(format, args...)}}
	}
	pod := d.readyPod()
	isDeleting := d.Claim != nil && d.Claim.GetDeletionTimestamp() != nil
	switch {
	case !d.HasVolume:
		return nil
	case isDeleting && (!isBlank(record) || len(d.Pods) > 0):
		return doubt(true, ReasonVolumeBeingDeleted, "it was deleted, and its volume goes as soon as its pod ends: save the data now, or set the reclaim policy of its volume to Retain; "+
			"until then nothing of the database is changed")
	case isBlank(record) && pod == nil && !d.Stopped:
		return &Doubt{} // whoever uses it before it is recorded could lose what was written
	case isBlank(record), pod != nil && record[keyID] != "" && reportedID(pod) == record[keyID]:
		return nil
	case d.Claim == nil:
		return doubt(true, ReasonDataLost, "the claim that held the database is gone: create it again with the right volume; or, to go on without the data, delete ConfigMap %s, which starts an empty database", RecordName(d.Name))
	case record[keyClaim] != "" && string(d.Claim.GetUID()) != record[keyClaim]:
		return doubt(false, ReasonDataLost, "it is another claim than the one that held the database: put the right volume in its place; or, to go on with what it holds, delete ConfigMap %s", RecordName(d.Name))
	}
	return nil
}

// claimUID is that of the claim, or empty when there is none that stays.
func (d *Database) claimUID() string {
	if d.Claim == nil || d.Claim.GetDeletionTimestamp() != nil {
		return ""
	}
	return string(d.Claim.GetUID())
}

// Serves reports whether a pod serves.
func (d *Database) Serves() bool { return d.readyPod() != nil }

// readyPod returns the pod that serves, or nil.
func (d *Database) readyPod() *corev1.Pod {
	for _, pod := range d.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return pod
			}
		}
	}
	return nil
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// reportedID is the volume's mark as the guard in a pod reported it, or empty.
func reportedID(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name != containerGuard || c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			continue
		}
		var report struct{ ID string }
		if json.Unmarshal([]byte(c.State.Terminated.Message), &report) == nil && idPattern.MatchString(report.ID) {
			return report.ID
		}
	}
	return ""
}
