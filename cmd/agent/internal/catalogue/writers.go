// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// mostWriters limits the writers that a message names.
const mostWriters = 5

// ofOneWriter returns the backups among which a restore selects the latest: the backups of the given writer. If this
// writer has no backups, ofOneWriter returns the backups of the only other writer. If the store has several other
// writers, it fails, and the user must name a backup. Backups of older agents have no writer, and count only if the store
// has no second writer. The note reports that a backup of another writer is used, or that another writer's backup has
// more rows. Otherwise it is "".
func ofOneWriter(entries []Entry, writer string) (same []Entry, note string, err error) {
	newest, others := newestOf(entries, writer)
	switch own := newest[writer]; {
	case len(others) == 0:
		return entries, "", nil
	case writer != "" && own != nil:
		for _, other := range others {
			if rows := newest[other].Manifest.Rows(); rows > own.Manifest.Rows() && note == "" {
				note = fmt.Sprintf("the store also has backups of another resource (%s); the newest of these has %d rows and is %s", other, rows, newest[other].ID)
			}
		}
		return ofWriter(entries, writer), note, nil
	case len(others) == 1:
		if writer != "" {
			note = fmt.Sprintf("the backup is of another resource (%s): resource %s has no backup in the store", others[0], writer)
		}
		return entries, note, nil
	}
	var all []string
	for _, other := range others[:min(len(others), mostWriters)] {
		all = append(all, fmt.Sprintf("%s (of resource %s, %d rows)", newest[other].ID, other, newest[other].Manifest.Rows()))
	}
	return nil, "", contract.Errorf(contract.ReasonRefused, "the store has backups of %d resources, and the latest backup may be another resource's: give the ID of a backup. The newest backup of each: %s", len(others), strings.Join(all, ", "))
}

// newestOf returns the newest backup of each writer. others are the writers except the given one, sorted by the age of their newest
// backups.
func newestOf(entries []Entry, writer string) (newest map[string]*Entry, others []string) {
	newest = map[string]*Entry{}
	for i, e := range entries {
		if e.Manifest == nil || e.IsDamaged() || newest[e.Manifest.Writer] != nil {
			continue
		}
		if newest[e.Manifest.Writer] = &entries[i]; e.Manifest.Writer != "" && e.Manifest.Writer != writer {
			others = append(others, e.Manifest.Writer)
		}
	}
	return newest, others
}

// ofWriter returns the backups of a writer, and the backups whose writer is unknown because their manifest cannot be read.
func ofWriter(entries []Entry, writer string) (same []Entry) {
	for _, e := range entries {
		if e.Manifest == nil || e.Manifest.Writer == writer {
			same = append(same, e)
		}
	}
	return same
}
