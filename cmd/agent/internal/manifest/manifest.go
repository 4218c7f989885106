// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest defines the metadata in the store. Each backup and each segment of the binary log has a manifest. An
// agent writes the objects first and then their manifest. Objects without a manifest are ignored.
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

// Format is the format of all manifests to which neither FormatFiles nor FormatGTID applies.
const Format = 1

// FormatFiles is the format of a backup whose Base is Files or Physical. It is the newest format of backups that this package reads. An
// agent that reads only Format refuses the backup.
const FormatFiles = 2

// FormatGTID is the format of the head and the segments of a timeline by GTID. An agent that reads only Format refuses them.
const FormatGTID = 2

// Values of Base: a copy of a server's data folder, as one tar stream in consecutive objects named files-…. Files is a copy of a member of
// a MySQLCluster. Physical is a copy of a single server whose log an archive follows.
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

// Backup describes a backup. It is the dump of a server at one position, a copy of a server's files, a snapshot of
// etcd, or the shards of a Redis Cluster.
type Backup struct {
	Format int `json:"format"`
	// ID names the backup. It begins with the start time, so that IDs sort by time.
	ID string `json:"id"`
	// Base is the form of the data: Files or Physical; empty for a dump, a snapshot or shards.
	Base string `json:"base,omitempty"`
	// Source identifies the data in the backup, for example by the ID of the volume's mark; empty if the caller gave no name.
	Source string `json:"source,omitempty"`
	// Writer identifies the resource whose data is in the backup, for example by its UID. A recreated resource is another Writer. Empty if
	// the caller named no writer, and in backups of older agents.
	Writer    string    `json:"writer,omitempty"`
	Started   time.Time `json:"started"`
	Completed time.Time `json:"completed"`
	// ServerTime is a time by the server's clock, shortly after the time of Position; zero in backups of older agents.
	ServerTime time.Time `json:"serverTime,omitzero"`
	Server     Server    `json:"server"`
	// Tool is the program that made the backup, such as mysqldump, or clone with the version of the server.
	Tool string `json:"tool"`
	// Position is the position of the dump in the server's binary log; nil if the server has no log.
	Position *contract.Position `json:"position,omitempty"`
	// LogBegan is the time of the first event in the file of Position. The file's name and LogBegan identify the log. Zero if the account
	// may not read the log.
	LogBegan time.Time `json:"logBegan,omitzero"`
	// PreparedFrom is the log file with the oldest XA transaction that is prepared at Position; empty if that file is the file of Position.
	PreparedFrom string `json:"preparedFrom,omitempty"`
	// Revision is a revision of etcd that the backup contains; 0 for other databases. The backup may also contain later revisions.
	Revision int64 `json:"revision,omitempty"`
	// Shards are the shards of a Redis Cluster. Shards[i] describes Objects[i]. Empty for other databases.
	Shards []Shard `json:"shards,omitempty"`
	// Objects are the backup's objects in the order in which a restore loads them.
	Objects []Object `json:"objects"`
	// Tables maps each table to its number of rows. Keys are `schema`.`table`, with the quotes.
	Tables map[string]int64 `json:"tables"`
	// TemporaryAccounts are names of accounts that a replay needs, and that the restored database does not keep.
	TemporaryAccounts []string `json:"temporaryAccounts,omitempty"`
	// Recipients are the public keys for which the objects are encrypted; none if they are not encrypted.
	Recipients []string `json:"recipients,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	// Annotations are annotations of the caller.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Server describes the server that was backed up.
type Server struct {
	// Version is the server's version, such as 5.7.44 or 10.11.19-MariaDB.
	Version string `json:"version"`
	// Flavour is one of mysql, mariadb, etcd and redis.
	Flavour string `json:"flavour"`
	// LowerCaseTableNames is the value of the variable lower_case_table_names. A server with another value may not find the tables.
	LowerCaseTableNames string `json:"lowerCaseTableNames,omitempty"`
	// Variables are the global variables that affect how data is stored and read; nil in backups of older agents.
	Variables map[string]string `json:"variables,omitempty"`
	// Zone is the time zone of the server's process; nil in backups of older agents.
	Zone *Zone `json:"zone,omitempty"`
	// UUID is MySQL's server_uuid, or the ID of an etcd cluster; empty for other databases.
	UUID string `json:"uuid,omitempty"`
}

// Zone is the time zone that a server's process runs in.
type Zone struct {
	// TZ is the variable TZ of the agent's environment; empty if it is not set. The server's pod has the same value.
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
	// Keys is the number of keys that the copied server had right after the copy.
	Keys int64 `json:"keys"`
}

// Object is a file of a backup or of a segment.
type Object struct {
	// Name is relative to the folder of the manifest.
	Name string `json:"name"`
	// Bytes and SHA256 describe the stored file. PlainBytes and PlainSHA256 describe the content before compression.
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
	// Damaged reports proof that the stored objects differ from the written objects. A failed check alone is no proof, because it can have
	// other causes. Older agents also recorded such failures, without this field.
	Damaged bool `json:"damaged,omitempty"`
	// Message describes the damage that was found.
	Message string `json:"message,omitempty"`
	// Server is the version of the server that loaded the backup.
	Server string `json:"server,omitempty"`
}

var idPattern = regexp.MustCompile(`^\d{8}T\d{6}Z-[0-9a-f]{8}$`)

// ID returns the ID of a backup that starts at a time. random distinguishes backups that start in the same second.
func ID(started time.Time, random [4]byte) string {
	return fmt.Sprintf("%s-%x", started.UTC().Format("20060102T150405Z"), random)
}

// IDAfter returns an ID that sorts after the given ID, even if the clock was set back since then. An empty ID sorts before all others.
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

// IsOnLog reports whether Position is a position in the log that an archive follows. For Base Files it returns false: there, Position is in
// the log of the copied member.
func (b *Backup) IsOnLog() bool { return b.Position != nil && b.Base != Files }

// HasGTIDs reports whether the GTIDs in the backup are known exactly. Only then can a timeline by GTID continue the backup.
func (b *Backup) HasGTIDs() bool {
	return b.Base == Files && b.Position != nil && b.Position.GTID != ""
}

// FirstFile returns the oldest log file that a replay reads.
func (b *Backup) FirstFile() string {
	if b.PreparedFrom != "" {
		return b.PreparedFrom
	}
	return b.Position.File
}

// Totals returns the total bytes of all objects, before compression and as stored.
func (b *Backup) Totals() (plain, stored int64) {
	for _, o := range b.Objects {
		plain, stored = plain+o.PlainBytes, stored+o.Bytes
	}
	return plain, stored
}

// Rows returns the number of rows in all tables, or the number of keys in all shards.
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
		return nil, contract.Errorf(contract.ReasonNewerFormat, "manifest %s is of a backup of the kind %.40q, which this agent does not know: use the version of the operator that wrote it, or a newer one", name, b.Base)
	case !IsID(b.ID) || name != Folder(b.ID)+Name:
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s has the backup ID %q, which is invalid or belongs to another backup", name, b.ID)
	case len(b.Objects) == 0:
		return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s names no object", name)
	}
	for _, o := range b.Objects {
		if o.Name == "" || o.Name != path.Base(o.Name) || strings.HasPrefix(o.Name, ".") || len(o.SHA256) != 64 || len(o.PlainSHA256) != 64 || o.Bytes < 0 {
			return nil, contract.Errorf(contract.ReasonDamaged, "manifest %s has an invalid entry for object %q", name, o.Name)
		}
	}
	return b, nil
}

// decode reads the format before all other fields, because a newer format may have unknown fields.
func decode(name string, text []byte, newest int, into any) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return contract.Errorf(contract.ReasonDamaged, "read manifest %s: %w", name, err)
	}
	switch {
	case head.Format > newest:
		return contract.Errorf(contract.ReasonNewerFormat, "manifest %s has format %d, but this agent reads formats up to %d: use the version of the operator that wrote it, or a newer one",
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
