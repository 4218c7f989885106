// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package example_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/example"
)

// Decisions are a pure function of the observation, so a table shows all of them.
func TestDecide(t *testing.T) {
	t.Parallel()
	empty, has, down := example.Member{Pod: "a"}, example.Member{Pod: "b", Data: "1"}, example.Member{Pod: "c", Problem: "it does not answer"}
	recorded := example.Record{Data: "1"}
	for name, c := range map[string]struct {
		record  example.Record
		waiting bool
		members []example.Member
		state   example.State
		step    string
	}{
		"no pod":                       {state: example.Waiting},
		"one of two pods":              {members: []example.Member{has}, state: example.Waiting},
		"a pod does not answer":        {members: []example.Member{empty, down}, state: example.Waiting},
		"the StatefulSet has changed":  {waiting: true, members: []example.Member{empty, empty}, state: example.Waiting},
		"new":                          {members: []example.Member{empty, empty}, state: example.Empty, step: "create the data of a"},
		"created":                      {members: []example.Member{has, empty}, state: example.Found, step: "record data 1"},
		"recorded":                     {recorded, false, []example.Member{has, empty}, example.Copying, "copy the data of b to a"},
		"the first volume is lost":     {recorded, false, []example.Member{empty, has}, example.Copying, "copy the data of b to a"},
		"whole":                        {recorded, false, []example.Member{has, has}, example.Whole, ""},
		"all volumes are lost":         {recorded, false, []example.Member{empty, empty}, example.DataLost, ""},
		"other data than the record":   {example.Record{Data: "2"}, false, []example.Member{has, empty}, example.OtherData, ""},
		"other data than another pod":  {members: []example.Member{has, {Pod: "a", Data: "2"}}, state: example.OtherData},
		"the record was lost, no data": {example.Record{}, false, []example.Member{empty, empty}, example.Empty, "create the data of a"},
	} {
		got, step := example.Decide(2, example.Observation{Record: c.record, NewData: "9", Waiting: c.waiting, Members: c.members}), ""
		if got.Step != nil {
			step = got.Step.Message
		}
		assert.Equal(t, got.State, c.state, name)
		assert.Equal(t, step, c.step, name)
	}
	unseen := example.Decide(1, example.Observation{Members: []example.Member{empty}})
	assert.Assert(t, unseen.State == example.Waiting && unseen.Step == nil, "without the record no data is created")
}
