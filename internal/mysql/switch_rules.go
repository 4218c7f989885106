// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"cmp"
	"fmt"
	"slices"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// ReasonAmbiguous is the reason of a verdict without a database in use. The status never shows this reason, because the operator refuses the
// spec.
const ReasonAmbiguous = "DatabaseUnknown"

// Facts are the known facts about the databases of a DataService.
type Facts struct {
	// Wanted is the name of the database in the spec. Accepted is the loss that the spec accepts.
	Wanted, Accepted string
	// IsRetained reports whether volumes outlive the DataService.
	IsRetained bool
	// Records are the records of all databases.
	Records []Record
	// Running lists the names of the databases that have a workload.
	Running []string
	// Prepared is the claim of the wanted database; nil if it does not exist or is being deleted.
	Prepared *Claim
}

// Record is the recorded state of a database's data.
type Record struct {
	Database   string
	HasData    bool   // the record names a volume
	ReplacedBy string // name of the database that replaced this one; "" for none
	ReplacedAt string // time of the replacement; "" for a database that was never in use
	Turn       int    // number of the write that replaced it
}

func (r *Record) isClean() bool { return r.HasData && r.ReplacedBy == "" }

// Claim is the claim of a database's volume.
type Claim struct {
	UID string
	// RestoredTo is the point in time to which a DataRestore restored the claim; "" for none.
	RestoredTo string
}

// Act names the next write.
type Act string

// The writes of a switch, in order.
const (
	None      Act = ""
	Enlist    Act = "EnlistDatabase"
	Replace   Act = "SwitchDatabase"
	Reinstate Act = "ReinstateDatabase"
)

// Verdict is the database in use, and the next write.
type Verdict struct {
	// Active is the database to run. If it is empty, the database is unknown, and none of its objects may be changed.
	Active string
	// IsBarred reports whether the database must have no pod because its record is not clean yet.
	IsBarred bool
	// IsStopping reports whether the services that use the database must have no pods.
	IsStopping bool
	// Act is the next write. Enlist and Replace are due when the pods of these services are deleted. Reinstate is due when the pods of
	// other databases are deleted.
	Act Act
	// Turn is the number of the next write.
	Turn int
	// Reason and Message are for users; empty if the spec matches the database in use. IsRefused reports whether a user must act.
	Reason, Message string
	IsRefused       bool
}

// JudgeSwitch returns the verdict on the facts.
func JudgeSwitch(f Facts) Verdict {
	v := Verdict{Turn: 1}
	for _, r := range f.Records {
		v.Turn = max(v.Turn, r.Turn+1)
	}
	if v.Active = f.active(); v.Active == "" {
		return v.refuse(ReasonAmbiguous, "several databases were in use under this DataService, and no record shows which is the right one: set spec.mysql.name to the database to continue with; "+
			"until then nothing of the database is changed")
	}
	if v.Active == f.Wanted {
		if own := f.record(f.Wanted); own != nil && own.ReplacedBy != "" {
			v.IsBarred, v.Act, v.Reason = true, Reinstate, dsv1.ReasonSwitching
			v.Message = fmt.Sprintf("database %s replaces %s, whose pod ends first", f.Wanted, own.ReplacedBy)
		}
		return v
	}
	return v.ask(f)
}

// active returns the name of the database in use, or "" if it is unknown.
func (f *Facts) active() string {
	var clean, running []string
	var last *Record
	for i := range f.Records {
		r := &f.Records[i]
		if r.isClean() {
			clean = append(clean, r.Database)
			if slices.Contains(f.Running, r.Database) {
				running = append(running, r.Database)
			}
		}
		if r.ReplacedBy != "" && (last == nil || r.Turn > last.Turn) {
			last = r
		}
	}
	switch {
	case len(clean) == 1:
		return clean[0]
	case len(clean) > 1 && len(running) == 1: // after a DataService was deleted and recreated with another database
		return running[0]
	case len(clean) > 1 && slices.Contains(clean, f.Wanted):
		return f.Wanted
	case len(clean) > 1:
		return ""
	case last != nil:
		return last.ReplacedBy
	case len(f.Running) > 0 && !slices.Contains(f.Running, f.Wanted): // the database was never ready
		return slices.Min(f.Running)
	}
	return f.Wanted
}

func (f *Facts) record(database string) *Record {
	i := slices.IndexFunc(f.Records, func(r Record) bool { return r.Database == database })
	if i < 0 {
		return nil
	}
	return &f.Records[i]
}

// ask judges a spec that names another database than the one in use.
func (v Verdict) ask(f Facts) Verdict {
	own := f.record(f.Wanted)
	wasUsed := own != nil && own.HasData && (own.ReplacedBy == "" || own.ReplacedAt != "")
	switch {
	case f.Prepared == nil || f.Prepared.RestoredTo == "" && !wasUsed:
		return v.refuse(dsv1.ReasonNotPrepared, "spec.mysql.name is %s, but no DataRestore has prepared a database of that name, and no database of that name was in use before: %s runs on, and nothing is switched. "+
			"Set spec.mysql.name back to %s, or create a DataRestore with databaseName: %s and wait until it is Prepared. For an empty database remove spec.mysql, delete ConfigMap %s-data, and declare it again",
			f.Wanted, v.Active, v.Active, f.Wanted, v.Active)
	case !f.IsRetained:
		return v.refuse(dsv1.ReasonNotRetained, "a switch to database %s needs spec.mysql.storage.retention: Retain, without which there would be no way back: %s runs on", f.Wanted, v.Active)
	}
	accept := Loss(own, f.Prepared)
	if f.Accepted != accept {
		return v.refuse(dsv1.ReasonLossNotAccepted, "database %s runs on, and nothing is switched: a switch to %s loses %s in %s. To switch, set spec.mysql.acceptLoss: %q; else set spec.mysql.name back to %s",
			v.Active, f.Wanted, accept, v.Active, accept, v.Active)
	}
	v.IsStopping, v.Act, v.Reason = true, Replace, dsv1.ReasonStopping
	if own == nil || own.ReplacedBy != v.Active {
		v.Act = Enlist
	}
	v.Message = fmt.Sprintf("stopping everything that uses database %s, to switch to %s; to cancel the switch, set spec.mysql.name back to %s", v.Active, f.Wanted, v.Active)
	return v
}

// Loss returns the text about the loss that a switch to a database causes. spec.mysql.acceptLoss must repeat this text.
// The text contains only the beginning of the lost time: the switch loses all writes since then.
func Loss(record *Record, claim *Claim) string {
	since := ""
	switch {
	case record != nil && record.HasData && (record.ReplacedBy == "" || record.ReplacedAt != ""):
		since = record.ReplacedAt
	case claim != nil:
		since = claim.RestoredTo
	}
	return object.LossSince(cmp.Or(since, Unknown))
}

// Unknown replaces the time in a text of Loss if no record shows since when the database has not been in use. That
// happens if a user recreates a DataService with another database.
const Unknown = "an unknown moment"

func (v Verdict) refuse(reason, format string, args ...any) Verdict {
	v.Reason, v.Message, v.IsRefused = cmp.Or(reason, v.Reason), fmt.Sprintf(format, args...), true
	return v
}
