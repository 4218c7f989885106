// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

// Data reads the IDs of the cluster and the member to which the data in a folder belongs. etcd uses the data in a folder only if the
// folder has a write-ahead log. Without a log, etcd creates new data, regardless of other files in the folder.
func (*Server) Data(folder string) member.Data {
	entries, err := os.ReadDir(filepath.Join(folder, "member"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return member.Data{}
	}
	if err != nil {
		return member.Data{Problem: fmt.Sprintf("the data cannot be read: %v", err)}
	}
	logs, err := filepath.Glob(filepath.Join(folder, "member", "wal", "*.wal"))
	if err != nil {
		return member.Data{Problem: fmt.Sprintf("the data cannot be read: %v", err)}
	}
	if len(logs) == 0 {
		return member.Data{Leftovers: true}
	}
	var problems error
	for _, file := range slices.Backward(logs) { // the names sort by age
		identity, err := readIdentity(file)
		if err == nil {
			return member.Data{Exists: true, Identity: identity}
		}
		problems = errors.Join(problems, err)
	}
	return member.Data{Exists: true, Problem: fmt.Sprintf("the write-ahead log does not show which member the data belongs to: %v", problems)}
}

// A file of the log consists of frames. A frame has a length and a record. A record is a protocol buffer with a type and data. The first
// records of each file are a checksum and the metadata.
const (
	recordType, recordData        = 1, 3 // field numbers
	typeMetadata                  = 1
	metadataNode, metadataCluster = 1, 2 // field numbers
	// longestHead limits the bytes to read for the first records.
	longestHead = 64 << 10
)

// readIdentity reads the metadata at the head of a file of the write-ahead log.
func readIdentity(file string) (member.Identity, error) {
	f, err := os.Open(file)
	if err != nil {
		return member.Identity{}, fmt.Errorf("read the write-ahead log: %w", err)
	}
	defer f.Close()
	head := io.LimitReader(f, longestHead)
	for {
		record, err := readFrame(head)
		if err != nil {
			return member.Identity{}, fmt.Errorf("read %s: no metadata at its head: %w", filepath.Base(file), err)
		}
		fields, err := decode(record)
		if err != nil {
			return member.Identity{}, fmt.Errorf("read %s: %w", filepath.Base(file), err)
		}
		if fields.numbers[recordType] != typeMetadata {
			continue
		}
		metadata, err := decode(fields.texts[recordData])
		if err != nil {
			return member.Identity{}, fmt.Errorf("read the metadata of %s: %w", filepath.Base(file), err)
		}
		node, cluster := metadata.numbers[metadataNode], metadata.numbers[metadataCluster]
		if node == 0 || cluster == 0 {
			return member.Identity{}, fmt.Errorf("read the metadata of %s: it names no member", filepath.Base(file))
		}
		return member.Identity{Cluster: formatID(cluster), Member: formatID(node)}, nil
	}
}

// formatID formats an ID as etcd does.
func formatID(id uint64) string { return strconv.FormatUint(id, 16) }

// readFrame returns the next record. The highest byte of the length contains the size of the padding.
func readFrame(r io.Reader) ([]byte, error) {
	var length uint64
	if err := binary.Read(r, binary.LittleEndian, &length); err != nil {
		return nil, err
	}
	padding := uint64(0)
	if length>>63 == 1 {
		padding = length >> 56 & 7
	}
	length &= 1<<56 - 1
	if length == 0 || length > longestHead {
		return nil, fmt.Errorf("a record of %d bytes", length)
	}
	frame := make([]byte, length+padding)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	return frame[:length], nil
}

// fields are the fields of a protocol buffer, by number.
type fields struct {
	numbers map[uint64]uint64
	texts   map[uint64][]byte
}

var errFormat = errors.New("not in the format of etcd")

// decode decodes a protocol buffer whose fields are numbers and texts.
func decode(data []byte) (fields, error) {
	found := fields{map[uint64]uint64{}, map[uint64][]byte{}}
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		if n <= 0 {
			return found, errFormat
		}
		data = data[n:]
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return found, errFormat
		}
		data = data[n:]
		switch key & 7 {
		case 0:
			found.numbers[key>>3] = value
		case 2:
			if value > uint64(len(data)) {
				return found, errFormat
			}
			found.texts[key>>3], data = data[:value], data[value:]
		default:
			return found, errFormat
		}
	}
	return found, nil
}
