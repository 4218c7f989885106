// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// foreseen runs diff and returns the objects that the operator would write, and the pods that would be replaced.
func (e *env) foreseen(args ...string) (d *plugin.Diff, objects []string, pods int64) {
	e.Helper()
	code, out, errOut := e.run(append([]string{"diff", "-o", "json"}, args...)...)
	d = &plugin.Diff{}
	if code == exitError || json.Unmarshal([]byte(out), d) != nil {
		e.Fatalf("diff %v: %s%s", args, out, errOut)
	}
	if (code == exitNo) != d.Changed() {
		e.Errorf("diff %v: exit code %d with %d changes", args, code, len(d.Changes))
	}
	for _, c := range d.Changes {
		if c.Error != "" {
			e.Errorf("%s %s: %s", c.Kind, c.Name, c.Error)
		}
		verb := map[string]string{"create": "apply", "update": "apply", "correct": "apply", "replace": "delete", "delete": "delete"}[string(c.Action)]
		if c.Kind == "PersistentVolumeClaim" && c.Action == "update" {
			verb = "patch"
		}
		objects = append(objects, verb+" "+c.Kind+"/"+c.Name)
		if c.Action == "replace" {
			objects = append(objects, "apply "+c.Kind+"/"+c.Name)
		}
		pods += c.Pods
	}
	return d, objects, pods
}

// written returns the objects that the operator wrote after a mark, without duplicates.
func written(op *stage.Operator, mark int) []string {
	var found []string
	for _, sent := range op.Since(mark, harness.Sent.WritesObject) {
		w := sent.Verb + " " + harness.Objects([]harness.Sent{sent})[0]
		if !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	return found
}

// pods returns the names of the pods that are not being deleted.
func (e *env) pods() map[types.UID]string {
	names := map[types.UID]string{}
	for _, pod := range harness.Every[*corev1.Pod](e.Journal) {
		if pod.DeletionTimestamp == nil {
			names[pod.UID] = pod.Name
		}
	}
	return names
}

// gone returns the names of the pods in before that were deleted or are being deleted.
func (e *env) gone(before map[types.UID]string) (names []string) {
	now := e.pods()
	for uid, name := range before {
		if now[uid] == "" {
			names = append(names, name)
		}
	}
	return names
}

// The operator makes exactly the changes that diff has printed: it writes, replaces and deletes the same objects, and restarts the same
// pods. Afterwards diff prints no change. All changes are made to one platform, one after the other.
func TestDiffIsWhatThenHappens(t *testing.T) {
	e := newEnv(t, "view")
	op := e.Start()
	e.CreateReady(harness.Small())
	var changes []fields
	for _, c := range []struct {
		name   string
		change fields
		more   string // an object that must also be written
	}{
		{"image", fields{"auth": fields{"image": "registry.example/auth:v2"}}, "apply Deployment/auth"},
		{"number of pods", fields{"auth": fields{"replica": 3}}, "apply PodDisruptionBudget/auth"},
		{"settings", fields{"auth": fields{"config": fields{"logging.level.root": "debug"}}}, "apply ConfigMap/auth"},
		{"a component goes", fields{"web": nil}, "delete Deployment/web"},
		{"a component comes", fields{"gateway-web": fields{}}, "apply Deployment/gateway-web"},
		{"volume", fields{"mysql": fields{"storage": fields{"size": "80Gi"}}}, "delete StatefulSet/mysql-dataservice"},
		{"kind", fields{"eureka": fields{"kind": "StatefulSet"}}, "apply StatefulSet/eureka"},
		{"node port", fields{"proxy": fields{"serviceType": "NodePort"}}, "apply Service/proxy"},
		{"annotations", fields{"auth": fields{"annotations": fields{"team": "a\x7fb"}}}, "apply Deployment/auth"},
		{"autoscaling", fields{"proxy": fields{"autoscaling": fields{"min": 2, "max": 3}}}, "apply HorizontalPodAutoscaler/proxy"},
		{"network policies", fields{"networkPolicy": fields{"enabled": true}}, "apply NetworkPolicy/auth"},
	} {
		e.says(exitYes, []string{"nothing changes", "Secrets were not compared"}, "diff", name)
		changes = append(changes, c.change)
		_, want, pods := e.foreseen("-f", e.file(harness.Small(changes...)))
		assert.Assert(t, slices.Contains(want, c.more), "%s: %s is not in %v", c.name, c.more, want)
		was, mark := e.pods(), op.Mark()
		e.ChangeReady(name, c.change)
		e.says(exitYes, []string{"nothing changes"}, "diff", name)
		deleted := slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(w, "delete Deployment") })
		e.Until(c.name+": what was foreseen", func() error {
			if difference := harness.Difference(written(op, mark), want); difference != "" {
				return fmt.Errorf("diff has foreseen %v, the operator wrote %v: %s", want, written(op, mark), difference)
			}
			if gone := e.gone(was); !deleted && int64(len(gone)) != pods {
				return fmt.Errorf("pods %v were deleted, but diff has foreseen %d", gone, pods)
			}
			return nil
		})
	}
}

// diff prints a change by another writer as drift, and predicts a refusal by the API server.
func TestDiffOfDriftAndOfMistakes(t *testing.T) {
	e := newEnv(t, "admin")
	e.mayWrite()
	op := e.Start()
	e.CreateReady(harness.Small())
	op.Stop()
	service := &corev1.Service{}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "auth"}, service))
	service.Spec.Ports[0].TargetPort.IntVal = 1
	e.Must(suite.API.Update(e.Ctx, service))
	e.says(exitNo, []string{"~ auth           Service auth  correct", "targetPort: 1 -> "}, "diff", name, "--summary")
	e.says(exitNo, []string{"--- cluster/Service/auth", "+++ planned/Service/auth", "-    targetPort: 1"}, "diff", name)
	_, out, _ := e.run("diff", name)
	assert.Assert(t, !strings.Contains(out, "Secrets were not compared"), "an admin may read them")

	wrong := e.file(harness.Small(fields{"auth": fields{"replica": -1}}))
	e.says(exitError, []string{"no such file"}, "diff", "-f", e.TempDir()+"/none.yaml")
	e.says(exitError, []string{"the API server would refuse", "replica"}, "diff", "-f", wrong)
	e.says(exitError, []string{"which DataService"}, "diff")
	e.says(exitError, []string{"not other"}, "diff", "other", "-f", wrong)
}

// For a DataService that does not exist, diff prints only creations.
func TestDiffOfANewOne(t *testing.T) {
	e := newEnv(t, "view")
	d, _, _ := e.foreseen("-f", e.file(harness.Small()))
	assert.Assert(t, len(d.Changes) > 15, fmt.Sprint(len(d.Changes)))
	for _, c := range d.Changes {
		assert.Equal(t, string(c.Action), "create", "%+v", c)
	}
}
