// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// The keys of a record that only the operator reads. Package contract has the keys that the agent's guard also reads.
const (
	keyReplacedAt = "replacedAt" // time of the replacement; missing for a database that was never in use
	keySwitch     = "switch"     // the number of the write that replaced the database
	// keyReadyBefore stores the time at which a database was first ready, if the database has since begun again on an
	// empty claim. A user accepts the loss by removing the key.
	keyReadyBefore = "readyBefore"
)

// The reasons of doubts.
const (
	ReasonDataLost = "DataLost"
	// ReasonVolumeBeingDeleted: the volume with the data will be deleted when its pod ends.
	ReasonVolumeBeingDeleted = "VolumeBeingDeleted"
	// ReasonFirstStart: the server ended while it created its first files, and cannot start on these files.
	ReasonFirstStart = "FirstStartBrokenOff"
)

const recordSuffix = "-data"

// RecordName returns the name of a database's record.
func RecordName(database string) string { return database + recordSuffix }

// ClaimName returns the name of a database's claim.
func ClaimName(database string) string { return "data-" + database + "-0" }

// Database is a database with its objects.
type Database struct {
	Name string
	// HasVolume reports whether the data of the database outlives its pods.
	HasVolume bool
	// Stopped reports whether the database should have no pod.
	Stopped bool
	// FirstReady is the first known readiness of the database, from the status; zero for none.
	FirstReady time.Time

	// Claim is the claim with the database's name, with any labels. Record is the operator's record. Both are nil if they do not exist.
	Claim, Record *unstructured.Unstructured
	Pods          []*corev1.Pod
}

// IsClaimNeeded reports whether a decision depends on the claim. If it does and the cache has no claim, the caller
// reads the claim from the API server.
func (d *Database) IsClaimNeeded() bool {
	return d.HasVolume && (d.Record != nil || d.readyPod() != nil)
}

// Recorded returns the planned data of the record, or nil for no record. The record is created when the database is
// ready for the first time, before any client may use the database. Later, Recorded changes it only if the pod's report
// proves that the data is the same. If a user deletes the record, it is created again when the database is ready.
func (d *Database) Recorded() map[string]string {
	var record map[string]string
	if d.Record != nil {
		live, _, _ := unstructured.NestedStringMap(d.Record.Object, "data")
		record = map[string]string{}
		for _, key := range []string{contract.RecordClaim, contract.RecordID, contract.RecordAllowServer, contract.RecordReplacedBy, keyReplacedAt, keySwitch, keyReadyBefore} {
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
		put(record, contract.RecordClaim, claim)
		put(record, contract.RecordID, id)
		if d.isYounger(pod) {
			put(record, keyReadyBefore, d.FirstReady.UTC().Format(time.RFC3339))
		}
	case isBlank(record) || id == "":
	case record[contract.RecordID] == id:
		put(record, contract.RecordClaim, claim)
	case record[contract.RecordID] == "" && record[contract.RecordClaim] == claim:
		put(record, contract.RecordID, id)
	}
	return record
}

// isYounger reports whether the server of the pod began on an empty volume although the database was ready before: the
// claim was created after the first readiness, and neither a DataRestore nor an earlier pod wrote its data.
func (d *Database) isYounger(pod *corev1.Pod) bool {
	if d.FirstReady.IsZero() || d.claimUID() == "" || d.Claim.GetAnnotations()[object.AnnotationRestoredTo] != "" {
		return false
	}
	r := report(pod)
	return d.Claim.GetCreationTimestamp().After(d.FirstReady) && (r.ID == "" || r.FirstStart)
}

// Younger returns a note if the database began again on an empty claim; otherwise an empty note.
func (d *Database) Younger() health.Note {
	before := d.Recorded()[keyReadyBefore]
	if before == "" || !d.HasVolume {
		return health.Note{}
	}
	text := fmt.Sprintf("PersistentVolumeClaim %s began empty: it was created after the database was ready (%s); restore a backup, or accept the loss: remove key %s from ConfigMap %s",
		ClaimName(d.Name), before, keyReadyBefore, RecordName(d.Name))
	return health.Note{Text: text, Culprit: health.Culprit{Kind: object.ClaimKind.Kind, Name: ClaimName(d.Name), Reason: health.BeganEmpty}}
}

// HasData reports whether the record names data. In that case, no backup is restored.
func (d *Database) HasData() bool { return !isBlank(d.Recorded()) }

// isBlank reports whether a record names no data.
func isBlank(record map[string]string) bool {
	return record[contract.RecordClaim] == "" && record[contract.RecordID] == ""
}

func put(record map[string]string, key, value string) {
	if value != "" {
		record[key] = value
	}
}

// Doubt explains why a database does not count as ready. If Hold is true, the operator changes no running object, and
// creates no object that could write.
type Doubt struct {
	Culprit health.Culprit // empty if there is nothing to report to users
	Hold    bool
	// IsCause reports whether the doubt explains the problem that pods report.
	IsCause bool
}

// Doubt returns the reason why a database does not count as ready, or nil.
func (d *Database) Doubt() *Doubt {
	record := d.Recorded()
	claim := ClaimName(d.Name)
	doubt := func(hold bool, reason, format string, args ...any) *Doubt {
		return &Doubt{Hold: hold, IsCause: hold, Culprit: health.Culprit{Kind: "PersistentVolumeClaim", Name: claim, Reason: reason, Message: fmt.Sprintf(format, args...)}}
	}
	pod := d.readyPod()
	isDeleting := d.Claim != nil && d.Claim.GetDeletionTimestamp() != nil
	switch {
	case !d.HasVolume:
		return nil
	case isDeleting && (!isBlank(record) || len(d.Pods) > 0):
		return doubt(true, ReasonVolumeBeingDeleted, "it was deleted, and its volume is deleted as soon as its pod ends: save the data now, or set the reclaim policy of its volume to Retain; "+
			"until then nothing of the database is changed")
	case d.lostVolume() != "" && (!isBlank(record) || len(d.Pods) > 0):
		return doubt(true, ReasonDataLost, "its PersistentVolume was deleted: save the data now if a pod still serves, and bring %s back; "+
			"or, to go on without the data, delete the claim and ConfigMap %s", d.lostVolume(), RecordName(d.Name))
	case isBlank(record) && pod == nil && !d.Stopped:
		broken := d.brokenStart()
		return &Doubt{Culprit: broken, IsCause: broken != health.Culprit{}} // a client that uses the database before the record exists could lose its writes
	case isBlank(record), pod != nil && record[contract.RecordID] != "" && reportedID(pod) == record[contract.RecordID]:
		return nil
	case d.Claim == nil:
		return doubt(true, ReasonDataLost, "the claim that held the database is gone: create it again with the right volume; or, to go on without the data, delete ConfigMap %s, which starts an empty database", RecordName(d.Name))
	case record[contract.RecordClaim] != "" && string(d.Claim.GetUID()) != record[contract.RecordClaim]:
		return doubt(false, ReasonDataLost, "it is not the claim that held the database: put the right volume under this claim; or, to continue with the data that the claim has, delete ConfigMap %s", RecordName(d.Name))
	}
	return nil
}

// brokenStart returns the pod whose server ended during its first start, or an empty culprit. Kubernetes restarts only
// the container, without the guard. The server then runs on the files of the first start. The database in these files
// may be incomplete. If the server was killed and crashes later, Kubernetes shows only the crash, and brokenStart may find
// nothing.
func (d *Database) brokenStart() health.Culprit {
	for _, pod := range d.Pods {
		if pod.DeletionTimestamp != nil || !report(pod).FirstStart {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			ended := c.LastTerminationState.Terminated
			if c.Name != d.Name || c.RestartCount == 0 || ended == nil || ended.ExitCode == 0 {
				continue
			}
			return health.Culprit{Kind: "Pod", Name: pod.Name, Reason: ReasonFirstStart, Message: fmt.Sprintf("container %s ended with %s in the server's first start, which may have left an incomplete database: "+
				"delete the pod; the next pod then moves the unfinished folder aside", c.Name, health.ExitCode(ended))}
		}
	}
	return health.Culprit{}
}

// lostVolume returns the name of the claim's volume if the volume was deleted; otherwise "".
func (d *Database) lostVolume() string {
	if d.Claim == nil {
		return ""
	}
	if phase, _, _ := unstructured.NestedString(d.Claim.Object, "status", "phase"); phase != string(corev1.ClaimLost) {
		return ""
	}
	volume, _, _ := unstructured.NestedString(d.Claim.Object, "spec", "volumeName")
	return volume
}

// claimUID returns the UID of the claim; "" if the claim does not exist or is being deleted.
func (d *Database) claimUID() string {
	if d.Claim == nil || d.Claim.GetDeletionTimestamp() != nil {
		return ""
	}
	return string(d.Claim.GetUID())
}

// Serves reports whether a pod is ready.
func (d *Database) Serves() bool { return d.readyPod() != nil }

// readyPod returns a ready pod, or nil.
func (d *Database) readyPod() *corev1.Pod {
	for _, pod := range d.Pods {
		if pod.DeletionTimestamp == nil && health.IsReady(pod) {
			return pod
		}
	}
	return nil
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// report returns the report of the guard that allowed a pod's server to start. It may be empty.
func report(pod *corev1.Pod) contract.Guarded {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name != containerGuard || c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			continue
		}
		var r contract.Guarded
		if json.Unmarshal([]byte(c.State.Terminated.Message), &r) == nil && idPattern.MatchString(r.ID) {
			return r
		}
	}
	return contract.Guarded{}
}

// reportedID returns the volume's mark in the report of a pod's guard, or "".
func reportedID(pod *corev1.Pod) string { return report(pod).ID }
