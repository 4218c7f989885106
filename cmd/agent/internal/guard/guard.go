// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard decides whether a database server may start on a volume. It runs in the server's pod, before the server: Kubernetes
// replaces a deleted volume by an empty one and starts the server on it, whether or not the operator runs. Judge has no side effects. The
// other functions read and mark the volume.
package guard

import (
	"fmt"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// Mark is the file that the guard writes on a volume, next to the data.
type Mark struct {
	// Format is the version of this structure, markFormat.
	Format int `json:"format"`
	// ID identifies the volume's data. The guard creates it once, before the first start on the volume.
	ID string `json:"id"`
	// Server is the version of the last server that the guard allowed to start, such as "5.7.44"; empty if unknown.
	Server string `json:"server,omitempty"`
	// ReplacedBy names the volume or database that has permanently replaced this volume; empty while the volume is in use.
	ReplacedBy string `json:"replacedBy,omitempty"`
	// Restoring names the backup that is being restored to the volume; empty before and after the restore. During the restore, the volume
	// holds an incomplete database.
	Restoring string `json:"restoring,omitempty"`
	// RestoredFrom names the backup from which the data was restored; empty for data that was created on the volume.
	RestoredFrom string `json:"restoredFrom,omitempty"`
	// Initialising reports whether the server started on an empty folder to create a new database. It is true until the
	// guard finds a record of the operator that the database became ready.
	Initialising bool `json:"initialising,omitempty"`
}

// markFormat is the format of a Mark without Restoring and Initialising. A Mark with one of the two has unfinishedFormat. Older guards,
// which do not read these fields, refuse this format.
const (
	markFormat       = 1
	unfinishedFormat = 2
)

// Volume describes the content of a volume.
type Volume struct {
	Mark *Mark // nil for none
	// HasData reports whether the volume has a database.
	HasData bool
	// IsEmpty reports whether the data folder is empty.
	IsEmpty bool
	// HasTables reports whether the data folder may contain a table of a user.
	HasTables bool
	// Others lists up to maxNamed tables of users, as SCHEMA.TABLE, whose engine is not InnoDB. It is empty for data of MariaDB, or of MySQL
	// before 8.0.
	Others []string
	// OfMember reports whether the volume belongs to a member of a MySQLCluster. Such a volume contains the file in which the member stores
	// its promises.
	OfMember bool
	// Data describes the server that wrote the data, according to the files.
	Data Evidence
}

// Record is the operator's record of the data, from a ConfigMap.
type Record struct {
	// Exists reports whether data is expected on the volume.
	Exists bool
	// ID is the ID of the volume's Mark; empty until the operator has read the Mark.
	ID string
	// ReplacedBy is the name of the database that is used instead of the data on this volume; empty while this data is in use.
	ReplacedBy string
	// AllowServer is the release series, such as "8.0", that a user has allowed to start on data of another series.
	AllowServer string
}

// Question is the input of Judge.
type Question struct {
	Volume Volume
	Record Record
	// Server is the version of the server in the pod's image; nil if it is unknown.
	Server *Version
	// Declared is the release series in the spec, such as "5.7"; empty for none.
	Declared string
	// Component is the field of the spec that declares the server, such as spec.mysql. Claim is the name of the volume claim, and
	// RecordName is the name of the ConfigMap with the record. Messages contain all three.
	Component, Claim, RecordName string
}

// Refusal is the reason why a server must not start. Reason is one of the constants below.
type Refusal = contract.Refusal

// The reasons of a Refusal.
const (
	// ReasonDataLost: the volume does not have the expected data.
	ReasonDataLost = "DataLost"
	// ReasonServerVersion: the data has another release series than the server.
	ReasonServerVersion = "ServerVersionRefused"
	// ReasonReplaced: another database, on another volume, has replaced this database.
	ReasonReplaced = "VolumeReplaced"
	// ReasonRestoring: a restore to the volume is not complete.
	ReasonRestoring = "VolumeRestoring"
	// ReasonUnreadable: the volume or its mark cannot be read.
	ReasonUnreadable = "VolumeUnreadable"
)

// Judge returns the reason why the server must not start on the volume, or nil if it may start.
func Judge(q Question) *Refusal {
	for _, rule := range []func(Question) *Refusal{restored, readable, inUse, expected, sameSeries, asDeclared} {
		if refusal := rule(q); refusal != nil {
			return refusal
		}
	}
	return nil
}

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ImportPrefix is the prefix of Mark.Restoring during an import of a running server. During a restore, Mark.Restoring is the backup's name.
const ImportPrefix = "import of "

func restoringOf(v Volume) string {
	if v.Mark == nil {
		return ""
	}
	return v.Mark.Restoring
}

func restored(q Question) *Refusal {
	if from, isImport := strings.CutPrefix(restoringOf(q.Volume), ImportPrefix); isImport {
		return refuse(ReasonRestoring, "the volume of claim %s holds a part of a copy of %s, whose import has not finished. No server starts on the volume: declare %s.importFrom again, or delete the claim to begin without a copy",
			q.Claim, from, q.Component)
	}
	if q.Volume.Restoring() {
		return refuse(ReasonRestoring, "the volume of claim %s holds a part of backup %s: its restore has not finished. No server starts on the volume: wait until the restore finishes, or run the restore again",
			q.Claim, q.Volume.Mark.Restoring)
	}
	return nil
}

func readable(q Question) *Refusal {
	if q.Volume.OfMember {
		return refuse(ReasonUnreadable, "the volume of claim %s belongs to a member of a MySQLCluster, and the other members would not get the writes of a single server: in %s, set replica above 1, or replication: {}, or another name",
			q.Claim, q.Component)
	}
	if m := q.Volume.Mark; m != nil && (m.Format > markFormat && !m.Initialising || m.Format > unfinishedFormat || m.ID == "") {
		return refuse(ReasonUnreadable, "this version cannot read file %s on the volume of claim %s (format %d): run the version of the operator that wrote it, or a newer one",
			markFile, q.Claim, m.Format)
	}
	return nil
}

func inUse(q Question) *Refusal {
	if by := q.Record.ReplacedBy; by != "" {
		return refuse(ReasonReplaced, "database %s has replaced the database on the volume of claim %s (key replacedBy of ConfigMap %s): a second server would share its clients. "+
			"To switch back, set %s.name and %s.acceptLoss", by, q.Claim, q.RecordName, q.Component, q.Component)
	}
	if m := q.Volume.Mark; m != nil && m.ReplacedBy != "" {
		return refuse(ReasonReplaced, "the database on the volume of claim %s was replaced by %s, which has the newer data: no server starts on the old volume", q.Claim, m.ReplacedBy)
	}
	return nil
}

// expected refuses a volume without the data that the record names.
func expected(q Question) *Refusal {
	consent := fmt.Sprintf("put the right volume under that claim; or, to continue without the recorded data, delete ConfigMap %s", q.RecordName)
	mark := q.Volume.Mark
	switch {
	case !q.Record.Exists:
		return nil
	case !q.Volume.HasData:
		return refuse(ReasonDataLost, "the volume of claim %s is empty, but it held a database: %s, which starts an empty database", q.Claim, consent)
	case q.Record.ID == "":
		return nil
	case mark == nil:
		return refuse(ReasonDataLost, "the data on the volume of claim %s is not the data in the record (it has no mark, expected is %s): %s", q.Claim, q.Record.ID, consent)
	case mark.ID != q.Record.ID:
		return refuse(ReasonDataLost, "the data on the volume of claim %s is not the data in the record (its mark is %s, expected is %s): %s", q.Claim, mark.ID, q.Record.ID, consent)
	}
	return nil
}

// sameSeries refuses a server whose release series differs from that of the data. A newer server would change the data irreversibly, and an
// older server cannot read the data.
func sameSeries(q Question) *Refusal {
	if q.Server == nil || !q.Volume.HasData || q.Record.AllowServer == q.Server.Series() {
		return nil
	}
	data := q.Volume.Data
	if m := q.Volume.Mark; m != nil && m.Server != "" {
		if marked, ok := ParseVersion(m.Server); ok {
			data = Evidence{Version: marked}
		}
	}
	if data.allows(q.Server) {
		return nil
	}
	return refuse(ReasonServerVersion, "the image has %s, but the data on the volume of claim %s is of %s; nothing was changed: set %s.image back. "+
		"To allow %s to change the data irreversibly, save the data first, then set the key allowServer of ConfigMap %s to %q",
		q.Server, q.Claim, data, q.Component, q.Server, q.RecordName, q.Server.Series())
}

// asDeclared refuses a server whose release series differs from the series in the spec.
func asDeclared(q Question) *Refusal {
	if q.Server == nil || q.Declared == "" || q.Server.Series() == q.Declared {
		return nil
	}
	return refuse(ReasonServerVersion, "the image has %s, but %s.serverVersion is %q; nothing was changed: correct %s.image or %s.serverVersion so that both have "+
		"the same release series", q.Server, q.Component, q.Declared, q.Component, q.Component)
}
