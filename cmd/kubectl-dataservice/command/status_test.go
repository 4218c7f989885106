// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

type fields = harness.Fields

const name = "dataservice-sample"

// A user with the role view sees the status. The exit code reports the health.
func TestStatus(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	assert.Equal(t, strings.Contains(e.says(exitYes, nil, "status"), "there are no DataServices in namespace "+e.Namespace), true)
	e.says(exitError, []string{"read DataService nothing", "not found"}, "status", "nothing")
	e.CreateReady(harness.Small())
	e.says(exitYes, []string{name + "   namespace " + e.Namespace, "Running 6/6", "(seen)", "paused no"}, "status", name)
	e.says(exitYes, []string{"NAME", name, "6/6", "1 of 1 ready"}, "status")
	ds := &dsv1.DataService{}
	assert.NilError(t, json.Unmarshal([]byte(e.says(exitYes, nil, "status", name, "-o", "json")), ds))
	assert.Equal(t, ds.Status.Phase, dsv1.PhaseRunning)
	list := &dsv1.DataServiceList{}
	assert.NilError(t, json.Unmarshal([]byte(e.says(exitYes, nil, "status", "-o", "json")), list))
	assert.Equal(t, len(list.Items), 1)
	e.says(exitError, []string{"it must be 'json'"}, "status", "-o", "xml")

	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:does-not-exist"}})
	text := e.says(exitNo, []string{"Degraded", "why    auth: pod auth-", "ImagePullBackOff", "look   kubectl -n " + e.Namespace + " describe pod auth-"}, "status", name)
	assert.Assert(t, !strings.Contains(text, "\x1b"), "colour is for terminals")
	e.says(exitNo, []string{"0 of 1 ready"}, "status")
}

// If the output is a pipe, status -w adds a line for each change, and reports the deletion of the DataService.
func TestStatusIsFollowed(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	var out, errOut buffer
	ended := make(chan int, 1)
	go func() { ended <- e.start(ctx, &out, &errOut, "status", name, "-w") }()
	contains := func(word string) {
		e.Until("it tells of "+word, func() error {
			if !strings.Contains(out.String(), word) {
				return fmt.Errorf("%s%s", out.String(), errOut.String())
			}
			return nil
		})
	}
	contains(e.Namespace + "/" + name + " 6/6 Running")
	e.Change(name, fields{"paused": true})
	contains("Paused")
	e.Must(suite.API.Delete(e.Ctx, e.DataService(name).DeepCopy()))
	contains("was deleted")
	cancel()
	assert.Equal(t, <-ended, exitYes)
}

func TestNamesAreCompleted(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	e.says(exitYes, []string{name}, "__complete", "status", "")
	e.says(exitYes, []string{"mysql\n", "auth\n"}, "__complete", "why", name, "")
	_, out, _ := e.run("__complete", "status", name, "")
	assert.Assert(t, !strings.Contains(out, "mysql"))
}

func TestVersion(t *testing.T) {
	e := newEnv(t, "view")
	e.says(exitYes, []string{"plugin", "operator", "unknown"}, "version")
	for _, test := range []struct {
		v    versions
		want string
	}{
		{versions{Plugin: "1.0.0", Operator: "1.0.0"}, ""},
		{versions{Plugin: "1.0.0"}, ""},
		{versions{Plugin: "0.0.0-dev", Operator: "1.0.0"}, ""},
		{versions{Plugin: "1.1.0", Operator: "1.0.0"}, "is newer than the operator"},
		{versions{Plugin: "1.0.0", Operator: "1.1.0"}, "is older than the operator"},
		{versions{Plugin: "1.0.0", Writer: "1.1.0"}, "is older than the operator"},
	} {
		assert.Assert(t, strings.Contains(test.v.skew(), test.want) && (test.want != "" || test.v.skew() == ""), "%+v: %s", test.v, test.v.skew())
	}
	for image, want := range map[string]string{
		"r.example:5000/d3os/d3os-operator:v1.2.3": "1.2.3", "r/a:1.2.3@sha256:00": "1.2.3", "r.example:5000/a": "", "a@sha256:00": "", "": "",
	} {
		assert.Equal(t, tag(image), want, "%s", image)
	}
}
