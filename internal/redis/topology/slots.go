// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Range is a range of slots, both ends included.
type Range struct{ From, To int }

// SlotSet is a set of slots. Its ranges are in ascending order, and do not overlap or touch. It is immutable. Its text
// has the format of Redis, with commas: 0-99,200.
type SlotSet []Range

// NewSlotSet returns the union of ranges.
func NewSlotSet(ranges ...Range) SlotSet {
	sorted := append([]Range(nil), ranges...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].From < sorted[j].From })
	var set SlotSet
	for _, r := range sorted {
		if r.To < r.From {
			continue
		}
		if last := len(set) - 1; last >= 0 && r.From <= set[last].To+1 {
			set[last].To = max(set[last].To, r.To)
			continue
		}
		set = append(set, r)
	}
	return set
}

// ParseSlotSet parses the text of a set. It rejects slots that do not exist.
func ParseSlotSet(text string) (SlotSet, error) {
	var ranges []Range
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := parseSlot(from)
		if err != nil {
			return nil, fmt.Errorf("slots %q: %w", text, err)
		}
		last, err := parseSlot(to)
		if err != nil {
			return nil, fmt.Errorf("slots %q: %w", text, err)
		}
		if last < first {
			return nil, fmt.Errorf("slots %q: range %s ends before it begins", text, part)
		}
		ranges = append(ranges, Range{first, last})
	}
	return NewSlotSet(ranges...), nil
}

func parseSlot(text string) (int, error) {
	slot, err := strconv.Atoi(text)
	if err != nil || slot < 0 || slot >= Slots || strconv.Itoa(slot) != text {
		return 0, fmt.Errorf("%q is not a slot (0 to %d)", text, Slots-1)
	}
	return slot, nil
}

// String returns the set as text.
func (s SlotSet) String() string {
	parts := make([]string, 0, len(s))
	for _, r := range s {
		if r.From == r.To {
			parts = append(parts, strconv.Itoa(r.From))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d-%d", r.From, r.To))
	}
	return strings.Join(parts, ",")
}

// MarshalText returns the set as text.
func (s SlotSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text of a set.
func (s *SlotSet) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSlotSet(string(text))
	return err
}

// Len returns the number of slots.
func (s SlotSet) Len() int {
	n := 0
	for _, r := range s {
		n += r.To - r.From + 1
	}
	return n
}

// Has reports whether the set contains a slot.
func (s SlotSet) Has(slot int) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].To >= slot })
	return i < len(s) && s[i].From <= slot
}

// Union returns the slots of either set.
func (s SlotSet) Union(other SlotSet) SlotSet {
	return NewSlotSet(append(append([]Range(nil), s...), other...)...)
}

// Intersect returns the slots of both sets.
func (s SlotSet) Intersect(other SlotSet) SlotSet {
	var common []Range
	for i, j := 0, 0; i < len(s) && j < len(other); {
		if from, to := max(s[i].From, other[j].From), min(s[i].To, other[j].To); from <= to {
			common = append(common, Range{from, to})
		}
		if s[i].To < other[j].To {
			i++
		} else {
			j++
		}
	}
	return common
}

// Minus returns the slots that are not in other.
func (s SlotSet) Minus(other SlotSet) SlotSet {
	var rest []Range
	for _, r := range s {
		from := r.From
		for _, o := range other {
			if o.To < from || o.From > r.To {
				continue
			}
			if o.From > from {
				rest = append(rest, Range{from, o.From - 1})
			}
			from = o.To + 1
		}
		if from <= r.To {
			rest = append(rest, Range{from, r.To})
		}
	}
	return rest
}

// First returns the lowest n slots, or all if there are fewer.
func (s SlotSet) First(n int) SlotSet {
	var first SlotSet
	for _, r := range s {
		if n <= 0 {
			break
		}
		r.To = min(r.To, r.From+n-1)
		n -= r.To - r.From + 1
		first = append(first, r)
	}
	return first
}

// All calls yield for each slot in ascending order, until it returns false.
func (s SlotSet) All(yield func(int) bool) {
	for _, r := range s {
		for slot := r.From; slot <= r.To; slot++ {
			if !yield(slot) {
				return
			}
		}
	}
}

// AllSlots returns the set of all slots.
func AllSlots() SlotSet { return SlotSet{{0, Slots - 1}} }
