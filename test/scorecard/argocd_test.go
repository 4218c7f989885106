// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// The health states of Argo CD.
const (
	healthy, progressing, degraded, suspended = "Healthy", "Progressing", "Degraded", "Suspended"
)

// phases maps each phase of kinds that run continuously to its health.
var phases = map[string]string{
	"Pending": progressing, "None": progressing, "Creating": progressing, "Updating": progressing, "Scaling": progressing, "Upgrading": progressing,
	"Recovering": progressing, "Terminating": progressing, "Running": healthy, "Degraded": degraded, "Failed": degraded, "QuorumLost": degraded,
	"Switching": progressing, "Unavailable": degraded, "Lost": degraded,
	"Paused": suspended, "Parked": suspended, "Hibernating": progressing, "Hibernated": suspended,
}

// ends maps each phase of kinds that run once to its health.
var ends = map[string]string{
	"Pending": progressing, "Validating": progressing, "Building": progressing, "Replaying": progressing, "Checking": progressing, "Running": progressing,
	"Succeeded": healthy, "Prepared": healthy, "Failed": degraded,
}

type fields = map[string]any

// assess returns the health that the script for Argo CD gives a resource.
func assess(t *testing.T, resource fields) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "..", "config", "argocd", "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	l := lua.NewState()
	defer l.Close()
	l.SetGlobal("obj", toLua(l, resource))
	if err := l.DoString(string(script)); err != nil {
		t.Fatal(err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v", l.Get(-1))
	}
	return result.RawGetString("status").String()
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case fields:
		table := l.NewTable()
		for key, field := range value {
			table.RawSetString(key, toLua(l, field))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, item := range value {
			table.Append(toLua(l, item))
		}
		return table
	case string:
		return lua.LString(value)
	case int:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	}
	return lua.LNil
}

// resource returns a resource in a phase, with the conditions of that phase.
func resource(kind, phase string) fields {
	is := map[bool]string{true: "True", false: "False"}
	return fields{
		"kind": kind, "metadata": fields{"generation": 3}, "spec": fields{},
		"status": fields{"phase": phase, "observedGeneration": 3, "message": phase, "conditions": []any{
			fields{"type": "Ready", "status": is[phase == "Running"], "message": phase},
			fields{"type": "Degraded", "status": is[phase == "Degraded" || phase == "Failed"], "message": phase},
		}},
	}
}

// Argo CD gets the health of every kind in every phase. A resource is progressing if the operator has not observed the resource or its
// spec.
func TestHealthForArgoCD(t *testing.T) {
	for _, kind := range []string{"DataService", "RedisCluster", "EtcdCluster", "MySQLCluster", "DataBackup", "DataRestore"} {
		once := kind == "DataBackup" || kind == "DataRestore"
		want := phases
		if once {
			want = ends
		}
		for phase, health := range want {
			if got := assess(t, resource(kind, phase)); got != health {
				t.Errorf("%s in phase %s is %s, not %s", kind, phase, got, health)
			}
		}
		if got := assess(t, fields{"kind": kind, "metadata": fields{"generation": 1}, "spec": fields{}}); got != progressing {
			t.Errorf("a new %s is %s", kind, got)
		}
		unseen := resource(kind, "Running")
		unseen["status"].(fields)["observedGeneration"] = -1
		if got := assess(t, unseen); got != progressing {
			t.Errorf("%s with a spec that is not seen is %s", kind, got)
		}
		if paused := resource(kind, "Running"); !once {
			paused["spec"] = fields{"paused": true, "pause": true}
			if got := assess(t, paused); got != suspended {
				t.Errorf("a paused %s is %s", kind, got)
			}
		}
	}
}

// The tables above contain each phase of the APIs.
func TestEachPhaseHasAHealth(t *testing.T) {
	known := maps.Clone(phases)
	maps.Copy(known, ends)
	constant := regexp.MustCompile(`(?m)^\s*Phase\w+\s+Phase\s*=\s*"(\w+)"`)
	found := 0
	for _, pattern := range []string{"../../api/v1/*.go", "../../api/*/v1alpha1/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range constant.FindAllStringSubmatch(string(text), -1) {
				if found++; known[match[1]] == "" {
					t.Errorf("%s: the phase %s has no health", file, match[1])
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d phases were found", found)
	}
}
