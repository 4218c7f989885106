// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/reconcile"
)

// Entry is a revision with its state.
type Entry struct {
	Number  int64       `json:"number"`
	Time    metav1.Time `json:"time"`
	Version string      `json:"operatorVersion,omitempty"`
	// State is Current, Good (the spec was ready), or Unknown (the spec was not observed ready before the next revision).
	State string `json:"state"`
	// Changed lists the fields that differ from the previous revision.
	Changed []string `json:"changed,omitempty"`

	spec map[string]any
}

// The states.
const (
	Current = "Current"
	Good    = "Good"
	Unknown = "Unknown"
)

// Entries returns the history of a DataService, latest first.
func Entries(ds *dsv1.DataService, revisions []*reconcile.Revision) []Entry {
	revisions = slices.Clone(revisions)
	slices.SortFunc(revisions, func(a, b *reconcile.Revision) int { return cmp.Compare(a.Number, b.Number) })
	var ready int64
	if ds.Status.History != nil {
		ready = ds.Status.History.ReadyGeneration
	}
	good := reconcile.Good(revisions, ready)
	var entries []Entry
	var before map[string]any
	for i, r := range revisions {
		e := Entry{Number: r.Number, Time: r.Time, Version: r.Version, State: Unknown, spec: r.Spec}
		switch {
		case r.Number == ds.Generation:
			e.State = Current
		case good[r.Number]:
			e.State = Good
		}
		if i > 0 {
			e.Changed = changes("", before, r.Spec)
		}
		before = r.Spec
		entries = append(entries, e)
	}
	slices.Reverse(entries)
	return entries
}

// changes returns the paths at which two values differ, down to the fields of a component.
func changes(path string, before, after any) []string {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	if wasMap != isMap && path != "" || !wasMap && !isMap || strings.Count(path, ".") >= 2 {
		return []string{path}
	}
	var found []string
	keys := map[string]bool{}
	for key := range was {
		keys[key] = true
	}
	for key := range is {
		keys[key] = true
	}
	for _, key := range sorted(keys) {
		found = append(found, changes(strings.TrimPrefix(path+"."+key, "."), was[key], is[key])...)
	}
	return found
}

func sorted(keys map[string]bool) []string {
	found := make([]string, 0, len(keys))
	for key := range keys {
		found = append(found, key)
	}
	slices.Sort(found)
	return found
}

// Print prints a history, latest first.
func Print(entries []Entry, now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-5s %-6s %-8s %-10s %s\n", "REV", "AGE", "STATE", "OPERATOR", "CHANGED")
	for _, e := range entries {
		changed := strings.Join(e.Changed, ", ")
		if e.Changed == nil {
			changed = "-"
		}
		fmt.Fprintf(&out, "%-5d %-6s %-8s %-10s %s\n", e.Number, Age(&e.Time, now), e.State, cmp.Or(e.Version, "-"), changed)
	}
	return out.String()
}

// Pick returns the entry with a number. For 0, it returns the latest good entry before the current spec.
func Pick(ds *dsv1.DataService, entries []Entry, number int64) (*Entry, error) {
	for i := range entries {
		e := &entries[i]
		if number == 0 && e.State == Good || number != 0 && e.Number == number {
			return e, nil
		}
	}
	switch {
	case len(entries) == 0:
		return nil, fmt.Errorf("%s has no history yet: it begins with the first change under an operator of version 0.3.0 or newer", ds.Name)
	case number == 0:
		return nil, fmt.Errorf("no earlier spec of %s is known to have been ready: give --to with a revision that 'kubectl dataservice history %s' lists", ds.Name, ds.Name)
	}
	return nil, fmt.Errorf("%s has no revision %d: 'kubectl dataservice history %s' lists the existing revisions", ds.Name, number, ds.Name)
}

// Spec returns the spec for a rollback to an entry. Some fields keep their present values: pausing, the order of rollouts, the numbers of
// pods and their autoscaling, the size and class of storage, and passwords, which the history does not store. kept names those fields that
// differ in the entry.
func Spec(ds *dsv1.DataService, e *Entry) (spec map[string]any, kept []string, err error) {
	data, err := json.Marshal(&ds.Spec)
	if err != nil {
		return nil, nil, err
	}
	present := map[string]any{}
	if err := json.Unmarshal(data, &present); err != nil {
		return nil, nil, err
	}
	if data, err = json.Marshal(e.spec); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, nil, err
	}
	stay := func(path ...string) {
		if keep(spec, present, path) {
			kept = append(kept, strings.Join(path, "."))
		}
	}
	stay("paused")
	stay("rollout")
	for _, component := range sorted(union(spec, present)) {
		if _, isComponent := spec[component].(map[string]any); !isComponent {
			continue
		}
		if _, there := present[component].(map[string]any); !there {
			if err := noPassword(spec[component], component); err != nil {
				return nil, nil, err
			}
			continue
		}
		for _, field := range []string{"replica", "autoscaling"} {
			stay(component, field)
		}
		if component == "mysql" {
			stay(component, "storage", "size")
			stay(component, "storage", "storageClassName")
			stay(component, "storage", "accessMode")
		}
		if password(spec, component) == reconcile.Masked {
			if password(present, component) == nil {
				return nil, nil, noPassword(spec[component], component)
			}
			stay(component, "thirdParty", "password")
		}
	}
	return spec, kept, nil
}

func union(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

// keep copies a field of the present spec, or removes the field if the present spec lacks it. It reports whether the spec has changed.
func keep(spec, present map[string]any, path []string) bool {
	for _, key := range path[:len(path)-1] {
		next, _ := present[key].(map[string]any)
		there, _ := spec[key].(map[string]any)
		if there == nil {
			if next == nil {
				return false
			}
			there = map[string]any{}
			spec[key] = there
		}
		spec, present = there, next
	}
	last := path[len(path)-1]
	was, is := spec[last], present[last]
	if reflect.DeepEqual(was, is) {
		return false
	}
	if is == nil {
		delete(spec, last)
	} else {
		spec[last] = is
	}
	return true
}

func password(spec map[string]any, component string) any {
	c, _ := spec[component].(map[string]any)
	thirdParty, _ := c["thirdParty"].(map[string]any)
	return thirdParty["password"]
}

// ErrNoPassword reports that neither the history nor the present spec contains a password.
var ErrNoPassword = errors.New("the history does not keep the password")

// noPassword returns ErrNoPassword if the password of a component is masked.
func noPassword(component any, name string) error {
	if password(map[string]any{name: component}, name) == reconcile.Masked {
		return fmt.Errorf("%w of %s (thirdParty.password): write the spec by hand, or use thirdParty.secretRef", ErrNoPassword, name)
	}
	return nil
}

// Downgrade returns the versions of the database if the changed spec would run an older version. An older version cannot open the data of a
// newer version.
func Downgrade(present *dsv1.DataService, spec map[string]any) (from, to string) {
	mysql, _ := spec["mysql"].(map[string]any)
	if present.Spec.MySQL == nil || mysql == nil {
		return "", ""
	}
	to, _ = mysql["version"].(string)
	from = present.Spec.MySQL.Version
	if from != "" && to != "" && compare(to, from) < 0 {
		return from, to
	}
	return "", ""
}

// compare compares versions by their numbers: 8.0.36 is before 8.4.
func compare(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		var m, n int
		if i < len(x) {
			_, _ = fmt.Sscan(x[i], &m) // a text that is not a number counts as 0
		}
		if i < len(y) {
			_, _ = fmt.Sscan(y[i], &n)
		}
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return 0
}
