// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"strings"

	"d3os.com/d3os-operator/test/harness"
)

// Point is one write of a run.
type Point struct {
	Verb, Resource, Name string
	Nth                  int // of that verb and object
}

// Points returns every write of a run.
func Points(requests []harness.Sent) []Point {
	var found []Point
	seen := map[Point]int{}
	for _, r := range requests {
		p := Point{Verb: r.Verb, Resource: r.Resource, Name: r.Name}
		seen[p]++
		p.Nth = seen[p]
		found = append(found, p)
	}
	return found
}

func (p Point) String() string {
	if p.Status() {
		return fmt.Sprintf("status-%d", p.Nth)
	}
	return fmt.Sprintf("%s-%s-%s-%d", p.Verb, p.Resource, p.Name, p.Nth)
}

// Status reports whether the write is of a status.
func (p Point) Status() bool { return strings.HasSuffix(p.Resource, "/status") }

// Rule lets something happen to that write.
func (p Point) Rule(do Action) *Rule {
	is := func(r harness.Request) bool { return r.Verb == p.Verb && r.Resource == p.Resource && r.Name == p.Name }
	return &Rule{When: is, Skip: p.Nth - 1, Times: 1, Do: do}
}
