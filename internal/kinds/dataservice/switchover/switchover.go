// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package switchover decides which of a DataService's databases is the one in use, and whether another one may take its
// place. The spec names the database that is wanted and repeats what is lost by that; which one is in use is read from the
// cluster alone, so whoever asks at whatever moment gets the same answer. It is pure.
//
// Each database has a record. At most one record is clean: that of the database in use. The others say by which database
// they were replaced, in which turn and when; the record of the highest turn names the one in use while none is clean. A
// switch is three writes, each of one record:
//
//  1. Enlist: the record of the wanted database says that it is replaced by the one in use. It is known from then on, and
//     its server cannot start.
//  2. Replace: the record of the database in use says that it is replaced by the wanted one. This is the switch.
//  3. Reinstate: the record of what is the database in use now becomes clean, after the last pod of the other one is gone.
//
// No order of them and no repetition lets two servers start: the guard in the pods refuses one whose record is not clean.
package switchover

import (
	"cmp"
	"fmt"
	"slices"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// ReasonAmbiguous is the reason of a verdict without a database in use. It is no reason of the status: the spec is refused.
const ReasonAmbiguous = "DatabaseUnknown"

// Facts are what is known of the databases of a DataService.
type Facts struct {
	// Wanted is the name of the database that the spec names, and Accepted the loss that it accepts.
	Wanted, Accepted string
	// IsRetained reports whether volumes outlive the DataService.
	IsRetained bool
	// Records are those of all databases.
	Records []Record
	// Running names the databases that have a workload.
	Running []string
	// Prepared is the claim of the wanted database, nil where there is none, or where it is being deleted.
	Prepared *Claim
}

// Record is what is recorded of a database's data.
type Record struct {
	Database   string
	HasData    bool   // it names a volume
	ReplacedBy string // the database that took its place, "" for none
	ReplacedAt string // when that was; "" for a database that was never in use
	Turn       int    // the number of the write that said so
}

func (r *Record) isClean() bool { return r.HasData && r.ReplacedBy == "" }

// Claim is the volume of a database.
type Claim struct {
	UID string
	// RestoredTo is the moment to which a DataRestore restored it; "" for a claim that none has prepared.
	RestoredTo string
}

// Act is what is to be written next.
type Act string

// The writes of a switch, in their order.
const (
	None      Act = ""
	Enlist    Act = "EnlistDatabase"
	Replace   Act = "SwitchDatabase"
	Reinstate Act = "ReinstateDatabase"
)

// Verdict is which database is in use, and what is to be done.
type Verdict struct {
	// Active is the database to run. Empty where it is not known: then nothing of the database may be changed.
	Active string
	// IsBarred reports whether it must have no pod: its record is not clean yet.
	IsBarred bool
	// IsStopping reports whether whoever uses the database is to have no pods.
	IsStopping bool
	// Act is to be taken once that is so (Enlist, Replace), or once the pods of other databases are gone (Reinstate).
	Act Act
	// Turn is that of the next write.
	Turn int
	// Reason and Message are what people are told; empty where the spec is what runs. IsRefused: a person has to act.
	Reason, Message string
	IsRefused       bool
}

// Judge decides.
func Judge(f Facts) Verdict {
	v := Verdict{Turn: 1}
	for _, r := range f.Records {
		v.Turn = max(v.Turn, r.Turn+1)
	}
	if v.Active = f.active(); v.Active == "" {
		return v.refuse(ReasonAmbiguous, "several databases were in use under this DataService, and nothing says which is the one: set spec.mysql.name to the one to go on with; "+
			"until then nothing of the database is changed")
	}
	if v.Active == f.Wanted {
		if own := f.record(f.Wanted); own != nil && own.ReplacedBy != "" {
			v.IsBarred, v.Act, v.Reason = true, Reinstate, dsv1.ReasonSwitching
			v.Message = fmt.Sprintf("database %s takes the place of %s, whose pod ends first", f.Wanted, own.ReplacedBy)
		}
		return v
	}
	return v.ask(f)
}

// active returns the name of the database in use, "" where it is not known.
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
	case len(clean) > 1 && len(running) == 1: // a DataService was deleted, and created again with another database
		return running[0]
	case len(clean) > 1 && slices.Contains(clean, f.Wanted):
		return f.Wanted
	case len(clean) > 1:
		return ""
	case last != nil:
		return last.ReplacedBy
	case len(f.Running) > 0 && !slices.Contains(f.Running, f.Wanted): // it was never ready
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

// ask judges a spec that wants another database than the one in use.
func (v Verdict) ask(f Facts) Verdict {
	own := f.record(f.Wanted)
	wasUsed := own != nil && own.HasData && (own.ReplacedBy == "" || own.ReplacedAt != "")
	switch {
	case f.Prepared == nil || f.Prepared.RestoredTo == "" && !wasUsed:
		return v.refuse(dsv1.ReasonNotPrepared, "spec.mysql.name is %s, but no DataRestore has prepared a database of that name, and none was replaced: %s runs on, and nothing is switched. "+
			"Set spec.mysql.name back to %s, or create a DataRestore with databaseName: %s and wait until it is Prepared. For an empty database remove spec.mysql, delete ConfigMap %s-data, and declare it again",
			f.Wanted, v.Active, v.Active, f.Wanted, v.Active)
	case !f.IsRetained:
		return v.refuse(dsv1.ReasonNotRetained, "a switch to database %s needs spec.mysql.storage.retention: Retain, without which there would be no way back: %s runs on", f.Wanted, v.Active)
	}
	accept := Loss(own, f.Prepared)
	if f.Accepted != accept {
		return v.refuse(dsv1.ReasonLossNotAccepted, "database %s runs on, and nothing is switched: a switch to %s loses %s in %s. To do it, write spec.mysql.acceptLoss: %q; else set spec.mysql.name back to %s",
			v.Active, f.Wanted, accept, v.Active, accept, v.Active)
	}
	v.IsStopping, v.Act, v.Reason = true, Replace, dsv1.ReasonStopping
	if own == nil || own.ReplacedBy != v.Active {
		v.Act = Enlist
	}
	v.Message = fmt.Sprintf("stopping what uses database %s, to switch to %s; to break off, set spec.mysql.name back to %s", v.Active, f.Wanted, v.Active)
	return v
}

// Loss is what is lost by a switch to a database with that record and claim, in the words that
// spec.mysql.acceptLoss has to repeat. It has no end: what is written until the switch is lost, too, and needs no count.
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

// Unknown is the moment since which a database was not used, where nothing says it: a person had created a DataService again
// with another one.
const Unknown = "an unknown moment"

func (v Verdict) refuse(reason, format string, args ...any) Verdict {
	v.Reason, v.Message, v.IsRefused = cmp.Or(reason, v.Reason), fmt.Sprintf(format, args...), true
	return v
}
