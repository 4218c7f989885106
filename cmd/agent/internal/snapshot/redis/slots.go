// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// slotCount is the number of hash slots of a cluster.
const slotCount = 16384

// span is a range of slots, including both ends.
type span struct{ from, to int }

// slots are hash slots in ascending order.
type slots []span

// String returns slots in the notation of CLUSTER NODES and manifests, such as 0-99,200.
func (s slots) String() string {
	words := make([]string, len(s))
	for i, part := range s {
		words[i] = strconv.Itoa(part.from)
		if part.to > part.from {
			words[i] += "-" + strconv.Itoa(part.to)
		}
	}
	return strings.Join(words, ",")
}

// parseSlots parses the notation of String.
func parseSlots(text string) (slots, error) {
	var all slots
	for word := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(word, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 0 || last < first || last >= slotCount || len(all) > 0 && first <= all[len(all)-1].to {
			return nil, fmt.Errorf("%q are no slots", text)
		}
		all = append(all, span{first, last})
	}
	return all, nil
}

// checkSlots returns an error unless each slot is in exactly one of the parts.
func checkSlots(parts ...slots) error {
	all := slices.Concat(parts...)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	next := 0
	for _, part := range all {
		switch {
		case part.from < next:
			return fmt.Errorf("slot %d has two owners", part.from)
		case part.from > next:
			return fmt.Errorf("slot %d has no owner", next)
		}
		next = part.to + 1
	}
	if next != slotCount {
		return fmt.Errorf("slot %d has no owner", next)
	}
	return nil
}
