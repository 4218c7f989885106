// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest defines the metadata in the store: a manifest for each backup and each segment of the binary log, written after the
// objects that it describes. Objects without a manifest are ignored.
package manifest

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"d3os.com/d3os-operator/internal/contract"
)

// Format is the format of all manifests, except those of a copy of a server's files.
const Format = 1

// FormatFiles is the format of the manifest of a backup with Base Files or Physical. It is the newest format that this package reads. An
// agent that knows only Format refuses such a backup.
const FormatFiles = 2

// FormatGTID is the format of the head and the segments of a timeline that is followed by GTID. An agent that knows only Format refuses it.
const FormatGTID = 2

// Values of Base: a copy of a server's data folder, as a tar stream in consecutive objects named files-…. Files is the copy of a member of
// a MySQLCluster, Physical the copy of a single server whose log the archive follows.
const (
	Files    = "files"
	Physical = "physical"
)

// Names of the objects in the store.
const (
	Backups  = "backups/"
	BinLogs  = "binlog/"
	Name     = "manifest.json"
	Verified = "verified.json"
)

// Backup describes a backup: the dump of a server at one position, a copy of its files, the snapshot of etcd, or the shards of a Redis Cluster.
type Backup struct {
	Format int `json:"format"`
	// ID names the backup; it begins with the time of its start, so that names sort by time.
	ID string `json:"id"`
	// Base is the form of the data: Files or Physical, or empty for a dump, a snapshot or shards.
	Base string `json:"base,omitempty"`
	// Source identifies the data in the backup, such as by the mark of its volume; empty if the caller gave no name.
	Source string `json:"source,omitempty"`
	// Writer identifies the resource whose data is in the backup, such as by its UID. A recreated resource has another Writer. Empty if the
	// caller gave none, and in backups of older agents.
	Writer    string    `json:"writer,omitempty"`
	Started   time.Time `json:"started"`
	Completed time.Time `json:"completed"`
	// ServerTime is a time after Position, by the server's own clock; zero in backups of older agents.
	ServerTime time.Time `json:"serverTime,omitzero"`
	Server     Server    `json:"server"`
	// Tool is the version of the program that made the dump.
	Tool string `json:"tool"`
	// Position is the position of the dump in the server's binary log; nil if the server keeps no log.
	Position *contract.Position `json:"position,omitempty"`
	// LogBegan is the time of the first event in the file of Position. The file's name and LogBegan identify the log. Zero if the account
	// may not read the log.
	LogBegan time.Time `json:"logBegan,omitzero"`
	// PreparedFrom is the log file of the oldest XA transaction that is prepared at Position; empty if all of them are in the file of
	// Position.
	PreparedFrom string `json:"preparedFrom,omitempty"`
	// Revision is a revision of etcd that the backup includes, possibly with later ones; 0 for other databases.
	Revision int64 `json:"revision,omitempty"`
	// Shards are the shards of a Redis Cluster. The object of a shard has the same index in Objects. Empty for other kinds.
	Shards []Shard `json:"shards,omitempty"`
	// Objects are in the order in which a restore loads them.
	Objects []Object `json:"objects"`
	// Tables has the number of rows of each table. Keys are `schema`.`table`, with the quotes.
	Tables map[string]int64 `json:"tables"`
	// TemporaryAccounts are names of accounts that a replay needs, and that the restored database does not keep.
	TemporaryAccounts []string `json:"temporaryAccounts,omitempty"`
	// Recipients are the public keys to which the objects are encrypted; none for objects without encryption.
	Recipients []string `json:"recipients,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	// Annotations are the caller's own.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Server describes the server from which a backup was made.
type Server struct {
	// Version is the server's version, such as 5.7.44 or 10.11.19-MariaDB.
	Version string `json:"version"`
	// Flavour is one of mysql, mariadb, etcd and redis.
	Flavour string `json:"flavour"`
	// LowerCaseTableNames is the value of the variable lower_case_table_names. A server with another value may not find the tables.
	LowerCaseTableNames string `json:"lowerCaseTableNames,omitempty"`
	// Variables are global variables that decide how the data is stored and read; nil in backups of older agents.
	Variables map[string]string `json:"variables,omitempty"`
	// Zone is the time zone of the server's process; nil in backups of older agents.
	Zone *Zone `json:"zone,omitempty"`
	// UUID is MySQL's server_uuid, or the id of etcd's cluster; empty for others.
	UUID string `json:"uuid,omitempty"`
}

// Zone is the time zone that a server's process runs in.
type Zone struct {
	// TZ is the variable TZ of the agent's environment; empty if it is not set. In the pods of one database, the server has the same value.
	TZ string `json:"tz,omitempty"`
	// Name is the variable system_time_zone, an abbreviation that is not unique.
	Name string `json:"name"`
	// Offsets are the seconds from UTC, as server.ZoneOffsets writes them.
	Offsets string `json:"offsets"`
}

// Shard is a part of a Redis Cluster.
type Shard struct {
	// Slots are the hash slots of the shard's keys, such as 0-5460 or 0-99,200.
	Slots string `json:"slots"`
	// Keys is the number of keys on the server right after its copy.
	Keys int64 `json:"keys"`
}

// Object is a file of a backup or of a segment.
type Object struct {
	// Name is relative to the folder of the manifest.
	Name string `json:"name"`
	// Bytes and SHA256 describe the stored file, PlainBytes and PlainSHA256 its content before compression.
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"`
	PlainBytes  int64  `json:"plainBytes"`
	PlainSHA256 string `json:"plainSha256"`
}

// Verification is the result of restoring a backup, stored next to its manifest.
type Verification struct {
	Format int       `json:"format"`
	Time   time.Time `json:"time"`
	OK     bool      `json:"ok"`
	// Damaged reports the proof that the backup's objects differ from what was written. A failed check alone proves nothing about the
	// backup, because a check can fail for many other reasons. Older agents also recorded such failures, without this field.
	Damaged bool `json:"damaged,omitempty"`
	// Message describes the damage that was found.
	Message string `json:"message,omitempty"`
	// Server is the version of the server that loaded the backup.
	Server string `json:"server,omitempty"`
}

var idPattern = regexp.MustCompile(`^\d{8}T\d{6}Z-[0-9a-f]{8}$`)

// ID returns the name of a backup that starts at a time. Random distinguishes backups of the same second.
func ID(started time.Time, random [4]byte) string {
	return fmt.Sprintf("%s-%x", started.UTC().Format("20060102T150405Z"), random)
}

// IDAfter returns an ID that sorts after another ID, even if the clock was set back since then. An empty ID sorts before all others.
func IDAfter(before string, now time.Time, random [4]byte) string {
	id := ID(now, random)
	if last, err := Time(before); err == nil && before[:16] >= id[:16] {
		id = ID(last.Add(time.Second), random)
	}
	return id
}

// Time returns the time at the beginning of an ID.
func Time(id string) (time.Time, error) {
	stamp, _, _ := strings.Cut(id, "-")
	return time.Parse("20060102T150405Z", stamp)
}

// IsID reports whether a text has the form of an ID.
func IsID(text string) bool { return idPattern.MatchString(text) }

// Folder returns the folder of the backup with an ID, with a slash at its end.
func Folder(id string) string { return Backups + id + "/" }

// IsOnLog reports whether Position is a position in the log that an archive follows. It returns false for Files, whose Position is in the
// log of the copied member.
func (b *Backup) IsOnLog() bool { return b.Position != nil && b.Base != Files }

// HasGTIDs reports whether the set of GTIDs in the backup is exactly known. Only then a timeline by GTID may continue the backup.
func (b *Backup) HasGTIDs() bool {
	return b.Base == Files && b.Position != nil && b.Position.GTID != ""
}

// FirstFile returns the oldest file of the log that a replay reads.
func (b *Backup) FirstFile() string {
	if b.PreparedFrom != "" {
		return b.PreparedFrom
	}
	return b.Position.File
}

// Totals returns the bytes of all objects: plain and stored.
func (b *Backup) Totals() (plain, stored int64) {
	for _, o := range b.Objects {
		plain, stored = plain+o.PlainBytes, stored+o.Bytes
	}
	return plain, stored
}

// Rows returns the rows of all tables, or the keys of all shards.
func (b *Backup) Rows() int64 {
	rows := int64(0)
	for _, n := range b.Tables {
		rows += n
	}
	for _, shard := range b.Shards {
		rows += shard.Keys
	}
	return rows
}

// Encode returns the text of a manifest.
func Encode(what any) ([]byte, error) {
	text, err := json.MarshalIndent(what, "", " ")
	return append(text, '\n'), err
}

// DecodeBackup parses the manifest of a backup. name is the name of the manifest in the store. It fails with NewerFormat or Damaged.
func DecodeBackup(name string, text []byte) (*Backup, error) {
	b := &Backup{}
	if err := decode(name, text, FormatFiles, b); err != nil {
		return nil, err
	}
	switch {
	case b.Base != "" && b.Base != Files && b.Base != Physical:
		return nil, contract.Errorf(contract.ReasonNewerFormat, "manifest %s has the form %.40q, which this agent does not know: use the version of the operator that wrote it, or a newer one", name, b.Base)
	case !IsID(b.ID) || name != Folder(b.ID)+Name:
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s is of another backup, %q", name, b.ID)
	case len(b.Objects) == 0:
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s names no object", name)
	}
	for _, o := range b.Objects {
		if o.Name == "" || o.Name != path.Base(o.Name) || strings.HasPrefix(o.Name, ".") || len(o.SHA256) != 64 || len(o.PlainSHA256) != 64 || o.Bytes < 0 {
			return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s names an object %q that cannot be one", name, o.Name)
		}
	}
	return b, nil
}

// decode parses the format first, because the other fields of a newer format are unknown.
func decode(name string, text []byte, newest int, into any) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return contract.Errorf(contract.ReasonDamaged, "read manifest %s: %w", name, err)
	}
	switch {
	case head.Format > newest:
		return contract.Errorf(contract.ReasonNewerFormat, "manifest %s has format %d, this agent reads formats up to %d: use the version of the operator that wrote it, or a newer one",
			name, head.Format, newest)
	case head.Format < 1:
		return contract.Errorf(contract.ReasonDamaged, "manifest %s has no format", name)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return contract.Errorf(contract.ReasonDamaged, "read manifest %s: %w", name, err)
	}
	return nil
}

// DecodeVerification parses the content of the object Verified.
func DecodeVerification(name string, text []byte) (*Verification, error) {
	v := &Verification{}
	return v, decode(name, text, Format, v)
}
