// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// Difference lists the differences between a copy and its source.
type Difference struct {
	// Objects are tables and other objects that exist only in the copy or only in the source. Rows are the tables whose rows differ.
	Objects, Rows []string
	// Views are the views that the copy lacks.
	Views []string
	// Tables and Total count the compared tables and rows.
	Tables int
	Total  int64
}

// IsNone reports whether the copy equals the source.
func (d *Difference) IsNone() bool { return len(d.Objects)+len(d.Rows) == 0 }

func (d *Difference) String() string {
	all := slices.Concat(d.Objects, d.Rows)
	text := strings.Join(all[:min(len(all), 8)], "; ")
	if len(all) > 8 {
		text += fmt.Sprintf("; and %d more", len(all)-8)
	}
	return text
}

// Open opens a connection to a server.
type Open func() (*server.Conn, error)

// Compare compares the objects, the number of rows and a sum over all columns of each table. No client may write to either server
// during the call.
func Compare(source, copied Open) (*Difference, error) {
	var found [2]contents
	var errs [2]error
	var both sync.WaitGroup
	for i, open := range []Open{source, copied} {
		both.Go(func() { found[i], errs[i] = read(open) })
	}
	both.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	d := &Difference{Tables: len(found[0].sums), Total: found[0].total}
	d.compareObjects(found[0].objects, found[1].objects)
	for name, sum := range found[0].sums {
		if other, ok := found[1].sums[name]; ok && sum != other {
			d.Rows = append(d.Rows, fmt.Sprintf("%s (%s at the source, %s in the copy)", name, sum, other))
		}
	}
	slices.Sort(d.Rows)
	return d, nil
}

func (d *Difference) compareObjects(source, copied map[string]string) {
	for name := range source {
		switch _, ok := copied[name]; {
		case ok || server.IsPhysical(name):
		case strings.HasPrefix(name, "view "):
			d.Views = append(d.Views, name)
		default:
			d.Objects = append(d.Objects, name+" is not in the copy")
		}
	}
	for name := range copied {
		if _, ok := source[name]; !ok && !server.IsPhysical(name) {
			d.Objects = append(d.Objects, name+" is not at the source")
		}
	}
	slices.Sort(d.Objects)
	slices.Sort(d.Views)
}
