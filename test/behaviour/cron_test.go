// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

const tick = "tick"

// withAgent gives an operator the image of its agent.
func withAgent(image string) func(*rest.Config, *manager.Options) {
	return func(_ *rest.Config, o *manager.Options) { o.Images = map[string]string{"agent": image} }
}

// ticker returns a DataService of one cron job that runs every second, with changes.
func ticker(changes fields) *unstructured.Unstructured {
	job := fields{"name": tick, "schedule": "* * * * * *", "image": "registry.example/work:v1", "command": []any{"work"}}
	for name, value := range changes {
		job[name] = value
	}
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": dsv1.GroupVersion.String(), "kind": dsv1.Kind, "metadata": fields{"name": "ticks"}, "spec": fields{"cronJobs": []any{job}},
	}}
}

// A cron job with seconds starts its command at each second, in one pod and one run at a time. The status reports a failed run, and then
// the next successful run. The pod ends when the cron job is suspended. The test compares times, so make test does not run it.
func TestCronWithSeconds(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	folder := t.TempDir()
	agent := filepath.Join(folder, "agent")
	e.Must(cluster.BuildAgent(e.Ctx, agent))
	pods, err := emulator.Start(e.Ctx, suite.Config, emulator.Options{Namespace: e.Namespace, Images: map[string]emulator.Image{
		"registry.example/work": {}, "example/agent": {Executables: map[string]string{"/agent": agent}},
	}})
	e.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			e.LastWords(pods.Log)
		}
		e.Must(pods.Stop())
	})
	e.Start(withAgent("example/agent:v1"))
	script := `cd ` + folder + `; echo begin $(date +%s%N) >> runs; sleep 0.2; echo end >> runs; test ! -e fails || exit 3`
	name := e.CreateReady(ticker(fields{"command": []any{"sh", "-c", script}}))
	e.runsEverySecond(filepath.Join(folder, "runs"), 60)

	e.Must(os.WriteFile(filepath.Join(folder, "fails"), nil, 0o600))
	e.Until("the failed run shows", func() error { return e.component(name, tick, dsv1.PhaseDegraded) })
	e.Must(os.Remove(filepath.Join(folder, "fails")))
	e.Until("the next run shows", func() error { return e.component(name, tick, dsv1.PhaseRunning) })

	e.Change(name, fields{"cronJobs": []any{fields{"name": tick, "schedule": "* * * * * *", "image": "registry.example/work:v1", "command": []any{"sh", "-c", script}, "suspend": true}}})
	e.Ready(name)
	e.Until("no pod is left", func() error {
		return stage.Unless(len(harness.Every[*appsv1.Deployment](e.Journal)) == 1 && harness.Lookup[*appsv1.Deployment](e.Journal, tick).Status.Replicas == 0, "a pod is left")
	})
}

// runsEverySecond waits until a file contains the begins and ends of as many runs as seconds. It fails the test unless the runs took that
// time (at most 1 s less or 2 s more) and never overlapped.
func (e *env) runsEverySecond(file string, seconds int) {
	e.Helper()
	var lines []string
	e.Until(fmt.Sprintf("%d runs", seconds), func() error {
		text, err := os.ReadFile(file)
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		if err != nil || len(lines) < 2*seconds {
			return fmt.Errorf("there are %d lines: %w", len(lines), err)
		}
		return nil
	})
	var begins []time.Time
	for i, line := range lines[:2*seconds] {
		at, isBegin := strings.CutPrefix(line, "begin ")
		if isBegin != (i%2 == 0) {
			e.Fatalf("runs overlap in line %d of\n%s", i, strings.Join(lines, "\n"))
		}
		if isBegin {
			nanoseconds, err := strconv.ParseInt(at, 10, 64)
			e.Must(err)
			begins = append(begins, time.Unix(0, nanoseconds))
		}
	}
	if took := begins[len(begins)-1].Sub(begins[0]); took > time.Duration(seconds-1)*time.Second+2*time.Second || took < time.Duration(seconds-1)*time.Second-time.Second {
		e.Errorf("%d runs took %s", seconds, took)
	}
}

// An operator with a newer image of the agent starts. The pods of a cron job and the pod that checks an external mysql
// keep the former image until another field of these pods changes. If the agent's image is not configured, a cron job
// keeps the former image even after such a change. The operator creates a Deployment for a schedule with seconds, and
// a CronJob for any other schedule.
func TestCronKeepsItsAgent(t *testing.T) {
	e := parallel(t)
	op := e.Start(withAgent("example/agent:v1"))
	object := ticker(nil)
	object.Object["spec"].(fields)["mysql"] = fields{"kind": int64(3), "thirdParty": fields{"url": "mysql://db.example", "username": "u", "password": "p"}}
	name := e.CreateReady(object)
	e.agentIs("example/agent:v1")
	op.Stop()

	op = e.Start(withAgent("example/agent:v2"), ofVersion("9.9.9"))
	e.passes(name)
	e.equal("written", asText(op.Since(0, harness.Sent.WritesObject)), nil)
	e.ChangeReady(name, fields{"cronJobs": []any{fields{"name": tick, "schedule": "*/2 * * * * *", "image": "registry.example/work:v1", "command": []any{"work"}}}})
	e.agentIs("example/agent:v2")
	op.Stop()

	op = e.Start(withAgent("unknown"), ofVersion("9.9.9"))
	e.ChangeReady(name, fields{"cronJobs": []any{fields{"name": tick, "schedule": "*/3 * * * * *", "image": "registry.example/work:v1", "command": []any{"work"}}}})
	e.agentIs("example/agent:v2")
	e.Change(name, fields{"cronJobs": []any{fields{"name": "other", "schedule": "* * * * * *", "image": "registry.example/work:v1", "command": []any{"work"}}}})
	e.Until("the missing image is named", func() error { return e.mentions(name, "other", "AgentUnknown", "set RELATED_IMAGE_AGENT") })
	op.Stop()

	e.Start(withAgent("example/agent:v3"), ofVersion("9.9.9"))
	e.Ready(name)
	e.ChangeReady(name, fields{"cronJobs": []any{fields{"name": "other", "schedule": "0 * * * * *", "image": "registry.example/work:v1", "command": []any{"work"}}}})
	if harness.Lookup[*appsv1.Deployment](e.Journal, "other") != nil || harness.Lookup[*batchv1.CronJob](e.Journal, "other") == nil {
		e.Error("a schedule without seconds has not become a CronJob")
	}
	e.Change(name, fields{"cronJobs": []any{fields{"name": "other", "schedule": "1 0 0 30 2 *", "image": "registry.example/work:v1", "command": []any{"work"}}}})
	e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, "", "spec.cronJobs[other].schedule", "is never due")
}

// agentIs fails the test unless the Deployment of the cron job uses this image of the agent.
func (e *env) agentIs(image string) {
	e.Helper()
	if got := harness.Lookup[*appsv1.Deployment](e.Journal, tick).Spec.Template.Spec.InitContainers[0].Image; got != image {
		e.Errorf("the agent is %s, not %s", got, image)
	}
}
