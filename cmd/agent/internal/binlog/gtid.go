// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/store"
	"d3os.com/d3os-operator/internal/contract"
)

// Jump sets the tracker to the offset of an event that may be after a gap: a server does not send transactions that its replica already
// has.
func (t *Tracker) Jump(raw []byte) {
	if len(raw) < headerSize {
		return
	}
	if end := EndOf(raw); end != 0 {
		t.Offset = end - uint64(len(raw))
	}
}

// EndOf returns the offset at which an event ends in the server's file; 0 if the event has no such offset.
func EndOf(raw []byte) uint64 { return uint64(binary.LittleEndian.Uint32(raw[13:])) }

// IsChecked reports whether events of the file have a checksum.
func (t *Tracker) IsChecked() bool { return t.checksum }

// IsOpen reports whether the last event belongs to an unfinished transaction.
func (t *Tracker) IsOpen() bool { return t.isOpen }

// Moved returns an event with its header adapted to another offset in another file.
func Moved(raw []byte, offset uint64, hasChecksum bool) []byte {
	e := slices.Clone(raw)
	flags := binary.LittleEndian.Uint16(e[17:])
	binary.LittleEndian.PutUint16(e[17:], flags&^flagArtificial)
	binary.LittleEndian.PutUint32(e[13:], uint32(offset+uint64(len(e)))) //nolint:gosec // positions in events are the lower 32 bits
	if end := len(e) - 4; hasChecksum && end >= headerSize {
		binary.LittleEndian.PutUint32(e[end:], crc32.ChecksumIEEE(e[:end]))
	}
	return e
}

// IsOutside reports whether events of the given event's type occur outside of transactions and have no effect on a replica.
func IsOutside(raw []byte) bool {
	return slices.Contains([]byte{typeStop, typeRotate, typeFormat, typeHeartbeat, typeHeartbeat2, typePrevious}, raw[4])
}

// Previous returns the event with the GTIDs of all earlier transactions. In a file, this event follows the format description. Without it,
// MySQL cannot read a relay log.
func Previous(format []byte, have Set, hasChecksum bool) ([]byte, error) {
	const ignorable = 0x80
	set, err := have.forProtocol()
	if err != nil {
		return nil, err
	}
	e := append(slices.Clone(format[:headerSize]), set.Encode()...)
	if hasChecksum {
		e = append(e, 0, 0, 0, 0)
	}
	e[4] = typePrevious
	binary.LittleEndian.PutUint32(e[9:], uint32(len(e))) //nolint:gosec // a set is short
	binary.LittleEndian.PutUint16(e[17:], ignorable)
	return e, nil
}

// typePrevious is the type of the event with the GTIDs of all earlier files.
const typePrevious = 35

// Follow requests from a server all transactions that are not in a set. The caller closes the result.
func Follow(o Options, version server.Version, have Set) (*replication.BinlogSyncer, *replication.BinlogStreamer, error) {
	a := &archive{Options: o, conn: &server.Conn{Version: version}}
	config := a.config()
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // the server signs its certificate itself
	set, err := have.forProtocol()
	if err != nil {
		return nil, nil, err
	}
	syncer := replication.NewBinlogSyncer(config)
	streamer, err := syncer.StartSyncGTID(set)
	if err != nil {
		syncer.Close()
		return nil, nil, Failed(o.Server, err)
	}
	return syncer, streamer, nil
}

// Failed converts an error of a connection that Follow opened to an error with a reason.
func Failed(o server.Options, err error) error {
	a := &archive{Options: Options{Server: o}}
	return a.failed(err)
}

// Sets returns the set of transactions before the timeline's first segment, and the set at the timeline's end.
func (t *Timeline) Sets() (begin, end Set, err error) {
	first, last := t.Head.Begin, t.Head.Begin
	if n := len(t.Segments); n > 0 {
		first, last = t.Segments[0].Before, t.Segments[n-1].Executed
	}
	if begin, err = ParseSet(first); err != nil {
		return nil, nil, err
	}
	end, err = ParseSet(last)
	return begin, end, err
}

// CommittedBy returns the latest commit time among the transactions of the timeline and the earlier transactions.
func (t *Timeline) CommittedBy() time.Time {
	latest := t.Head.From
	for _, s := range t.Segments {
		for _, at := range []time.Time{s.CommittedBy, s.LastCommit} {
			if at.After(latest) {
				latest = at
			}
		}
	}
	return latest
}

// From returns the segments of the first file with a transaction outside of the set, and of all later files.
func (t *Timeline) From(have Set) ([]manifest.Segment, error) {
	for i, s := range t.Segments {
		executed, err := ParseSet(s.Executed)
		if err != nil {
			return nil, err
		}
		if have.Contains(executed) {
			continue
		}
		for i > 0 && t.Segments[i-1].File == s.File {
			i--
		}
		return t.Segments[i:], nil
	}
	return nil, nil
}

// Continuing returns the timelines that continue a backup by GTID, newest first: the backup has all transactions before the timeline, and
// no transaction after the timeline's end. If there is no such timeline, Continuing returns an error.
func Continuing(ctx context.Context, s store.Store, b *manifest.Backup) (found []*Timeline, err error) {
	has, err := ParseSet(b.Position.GTID)
	if err != nil {
		return nil, err
	}
	heads, err := Heads(ctx, s)
	if err != nil {
		return nil, err
	}
	var behind, broken error
	for _, head := range heads {
		if head.Source != b.Source || !head.ByGTID {
			continue
		}
		t, err := Read(ctx, s, head, "")
		if err != nil {
			return nil, err
		}
		begin, end, err := t.Sets()
		switch {
		case err != nil:
			return nil, err
		case !has.Contains(begin):
		case end.Contains(has):
			found = append(found, t)
		case t.Broken != nil:
			broken = t.Broken
		case behind == nil:
			behind = contract.Errorf(contract.ReasonNotFound, "the archive does not have all transactions of backup %s yet: only the backup itself can be restored", b.ID)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case broken != nil:
		return nil, broken
	case behind != nil:
		return nil, behind
	}
	return nil, contract.Errorf(contract.ReasonNotFound, "no timeline of the archive continues backup %s: each was begun after the backup, or belongs to another database: only the backup itself can be restored", b.ID)
}

// forGTID returns the newest timeline that continues a backup by GTID.
func forGTID(ctx context.Context, s store.Store, b *manifest.Backup) (*Timeline, error) {
	found, err := Continuing(ctx, s, b)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// End returns the position after the last segment; nil without a segment.
func (t *Timeline) End() *contract.Position {
	if len(t.Segments) == 0 {
		return nil
	}
	end := t.end()
	return &end
}
