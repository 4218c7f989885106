// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"d3os.com/d3os-operator/internal/contract"
)

// Set is a set of GTIDs. It maps a server's UUID to the sorted, disjoint ranges of numbers. Only Add changes a set.
type Set map[string][]span

// span is a range of numbers, including both ends.
type span struct{ from, to int64 }

// ParseSet reads a set in the notation of MySQL, in which ranges may overlap. It fails with Refused for GTIDs with a tag.
func ParseSet(text string) (Set, error) {
	s := Set{}
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\n", ""), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		fields := strings.Split(part, ":")
		id := strings.ToLower(fields[0])
		for _, field := range fields[1:] {
			first, last, isRange := strings.Cut(field, "-")
			from, err := strconv.ParseInt(first, 10, 64)
			to := from
			if isRange && err == nil {
				to, err = strconv.ParseInt(last, 10, 64)
			}
			if err != nil || from < 1 || to < from {
				return nil, contract.Errorf(contract.ReasonRefused, "this agent cannot read the set of GTIDs %.80q: GTIDs with tags are not supported", part)
			}
			s[id] = append(s[id], span{from, to})
		}
	}
	for id := range s {
		s[id] = merged(s[id])
	}
	return s, nil
}

// merged sorts ranges and joins adjacent ones.
func merged(all []span) (out []span) {
	slices.SortFunc(all, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	for _, s := range all {
		if n := len(out); n > 0 && s.from <= out[n-1].to+1 {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Clone returns a copy.
func (s Set) Clone() Set {
	c := Set{}
	for id, spans := range s {
		c[id] = slices.Clone(spans)
	}
	return c
}

// Add adds a GTID in the form UUID:NUMBER to the set.
func (s Set) Add(gtid string) error {
	id, number, _ := strings.Cut(gtid, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%.80q is no GTID", gtid)
	}
	spans := s[id]
	if last := len(spans) - 1; last >= 0 && spans[last].to+1 == n {
		spans[last].to = n
		return nil
	}
	s[id] = merged(append(spans, span{n, n}))
	return nil
}

// Has reports whether the set has a GTID in the form UUID:NUMBER.
func (s Set) Has(gtid string) bool {
	id, number, _ := strings.Cut(gtid, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && slices.ContainsFunc(s[id], func(r span) bool { return r.from <= n && n <= r.to })
}

// Union returns the GTIDs that at least one of the two sets has.
func (s Set) Union(other Set) Set {
	c := s.Clone()
	for id, spans := range other {
		c[id] = merged(append(c[id], spans...))
	}
	return c
}

// Minus returns the GTIDs that the other set lacks.
func (s Set) Minus(other Set) Set {
	c := Set{}
	for id, spans := range s {
		var left []span
		for _, r := range spans {
			for _, o := range other[id] { // ascending
				if o.to < r.from || o.from > r.to {
					continue
				}
				if o.from > r.from {
					left = append(left, span{r.from, o.from - 1})
				}
				r.from = o.to + 1
			}
			if r.from <= r.to {
				left = append(left, r)
			}
		}
		if len(left) > 0 {
			c[id] = left
		}
	}
	return c
}

// And returns the GTIDs that both sets have.
func (s Set) And(other Set) Set { return s.Minus(s.Minus(other)) }

// Contains reports whether the set has all GTIDs of another set.
func (s Set) Contains(other Set) bool { return len(other.Minus(s)) == 0 }

// Equal reports whether both have the same GTIDs.
func (s Set) Equal(other Set) bool { return s.Contains(other) && other.Contains(s) }

// String returns the set in the notation of MySQL.
func (s Set) String() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(s)) {
		text := id
		for _, r := range s[id] {
			if text += ":" + strconv.FormatInt(r.from, 10); r.to > r.from {
				text += "-" + strconv.FormatInt(r.to, 10)
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}

// forProtocol returns the set as a type of the client library.
func (s Set) forProtocol() (mysql.GTIDSet, error) { return mysql.ParseMysqlGTIDSet(s.String()) }
