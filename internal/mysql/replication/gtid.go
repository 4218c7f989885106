// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GTIDs is a set of transactions in the notation of MySQL: UUID:1-5:7,UUID:TAG:1-3. The available libraries do not parse tags, which MySQL
// 8.3 introduced.
type GTIDs map[string][]interval

// interval includes both ends.
type interval struct{ first, last int64 }

// ParseGTIDs parses a set as MySQL prints it. It ignores whitespace.
func ParseGTIDs(text string) (GTIDs, error) {
	set := GTIDs{}
	text = strings.Join(strings.Fields(text), "")
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		fields := strings.Split(strings.ToLower(part), ":")
		source, ranges := fields[0], 0
		if len(source) != 36 || strings.Trim(source, "0123456789abcdef-") != "" {
			return nil, fmt.Errorf("read the GTID set %.200q: %q is no UUID", text, source)
		}
		for _, field := range fields[1:] {
			if field == "" {
				return nil, fmt.Errorf("read the GTID set %.200q: %q has an empty part", text, part)
			}
			if strings.Trim(field, "0123456789-") != "" {
				source = fields[0] + ":" + field
				continue
			}
			i, err := parseInterval(field)
			if err != nil {
				return nil, fmt.Errorf("read the GTID set %.200q: %w", text, err)
			}
			ranges++
			set[source] = append(set[source], i)
		}
		if ranges == 0 {
			return nil, fmt.Errorf("read the GTID set %.200q: %q has no numbers", text, part)
		}
	}
	for source := range set {
		set[source] = merge(set[source])
	}
	return set, nil
}

func parseInterval(text string) (interval, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	i := interval{}
	var err error
	if i.first, err = strconv.ParseInt(first, 10, 64); err == nil {
		i.last, err = strconv.ParseInt(last, 10, 64)
	}
	if err != nil {
		return i, fmt.Errorf("%q is no range of numbers: %w", text, err)
	}
	if i.first < 1 || i.last < i.first {
		return i, fmt.Errorf("%q is no range of positive numbers", text)
	}
	return i, nil
}

// merge sorts intervals and joins adjacent ones.
func merge(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	merged := all[:1]
	for _, i := range all[1:] {
		if end := &merged[len(merged)-1]; i.first <= end.last || i.first == end.last+1 {
			end.last = max(end.last, i.last)
		} else {
			merged = append(merged, i)
		}
	}
	return merged
}

// Contains reports whether the set contains all transactions of another set.
func (g GTIDs) Contains(other GTIDs) bool {
	for source, wanted := range other {
		has := g[source]
		for _, i := range wanted {
			if !slices.ContainsFunc(has, func(h interval) bool { return h.first <= i.first && i.last <= h.last }) {
				return false
			}
		}
	}
	return true
}

// With returns the transactions of both sets.
func (g GTIDs) With(other GTIDs) GTIDs {
	all := GTIDs{}
	for _, set := range []GTIDs{g, other} {
		for source, intervals := range set {
			all[source] = merge(append(slices.Clone(all[source]), intervals...))
		}
	}
	return all
}

// Without returns the transactions of the set that another set lacks.
func (g GTIDs) Without(other GTIDs) GTIDs {
	rest := GTIDs{}
	for source, intervals := range g {
		for _, i := range intervals {
			for _, o := range other[source] {
				if o.last < i.first || i.last < o.first {
					continue
				}
				if i.first < o.first {
					rest[source] = append(rest[source], interval{i.first, o.first - 1})
				}
				i.first = o.last + 1
			}
			if i.first <= i.last {
				rest[source] = append(rest[source], i)
			}
		}
	}
	return rest
}

// brief returns the beginning of the set for a message.
func (g GTIDs) brief() string {
	const most = 120
	text := g.String()
	switch {
	case text == "":
		return "nothing"
	case len(text) > most:
		return text[:most] + "…"
	}
	return text
}

// Equal reports whether two sets have the same transactions.
func (g GTIDs) Equal(other GTIDs) bool { return g.Contains(other) && other.Contains(g) }

// String returns the set in the notation of MySQL, sorted.
func (g GTIDs) String() string {
	var parts []string
	for _, source := range slices.Sorted(maps.Keys(g)) {
		part := source
		for _, i := range g[source] {
			part += fmt.Sprintf(":%d", i.first)
			if i.last > i.first {
				part += fmt.Sprintf("-%d", i.last)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
