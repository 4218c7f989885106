// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/cmd/kubectl-dataservice/adopt"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

const nothingToUndo = "there is nothing to undo"

// kill runs commands and ends them after a write, as if the process was killed before it read the response.
type kill struct {
	*env

	mu    sync.Mutex
	wrote []string // resource/name of each write of all runs
}

// life runs a command and kills it after skip+1 writes. It reports whether the command ended before that. An undo that follows one that was
// killed after its last write has nothing to do.
func (k *kill) life(skip int, args ...string) (ended bool) {
	k.Helper()
	ctx, cancel := context.WithCancel(k.Ctx)
	defer cancel()
	writes := 0
	k.wrap = func(next http.RoundTripper) http.RoundTripper {
		return harness.Transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return next.RoundTrip(r)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			response, err := next.RoundTrip(r)
			if request := harness.Parse(r.Method, r.URL, r.Header.Get("Content-Type")); err == nil && response.StatusCode < 300 {
				k.wrote = append(k.wrote, request.Resource+"/"+nameOf(r, request))
				if writes++; writes > skip {
					_ = response.Body.Close()
					cancel()
					return nil, errors.New("killed")
				}
			}
			return response, err
		})
	}
	defer func() { k.wrap = nil }()
	var out, errOut buffer
	code := k.start(ctx, &out, &errOut, args...)
	if ctx.Err() != nil {
		return false
	}
	if code != exitYes && !strings.Contains(errOut.String(), nothingToUndo) {
		k.Fatalf("exit code %d: %s%s", code, out.String(), errOut.String())
	}
	return true
}

// nameOf returns the name of the object that a request writes. For a create request, the body contains the name.
func nameOf(r *http.Request, request harness.Request) string {
	if request.Name != "" || r.GetBody == nil {
		return request.Name
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	o := metav1.PartialObjectMetadata{}
	_ = json.NewDecoder(body).Decode(&o)
	return o.Name
}

// TestAdoption adopts the original operator's twelve components, although the command is killed after each third write
// (FAULTS=full: each write) and repeated. The operator also restarts between runs, and writes nothing. The Services
// always have a ready address. The command writes only objects that its report has named. An undo, which is killed in
// the same way, restores all objects.
func TestAdoption(t *testing.T) {
	harness.Long(t)
	e := original(t, harness.Sample())
	op := e.Start()
	before := e.specs()
	report := e.report(exitYes, "--original-stopped")
	k := &kill{env: e}
	lives := 1
	restart := func() {
		op.Stop()
		op = e.Start()
	}
	silent := func() {
		e.Helper()
		if wrote := op.Since(0, harness.Sent.WritesObject); len(wrote) > 0 {
			e.Errorf("the operator wrote %v", wrote)
		}
	}
	skip, each := 2, 8 // each: number of runs of the command between two restarts of the operator
	if os.Getenv("FAULTS") == "full" {
		skip, each = 0, 20
	}
	for ; !k.life(skip, "adopt", name, "--apply", "--yes", "--original-stopped"); lives++ {
		if lives%each == 0 {
			silent()
			restart()
		}
	}
	e.Ready(name)
	silent()
	e.named(report, k.wrote)
	e.neverUnready()
	ds := e.DataService(name)
	assert.Equal(t, ds.Spec.Paused, false)
	assert.Equal(t, ds.Status.Ready, "12/12")
	_, out, _ := e.run("adopt", name, "--apply", "--yes", "--original-stopped")
	assert.Assert(t, strings.Contains(out, "all objects are adopted"), out)
	secret := &corev1.Secret{}
	e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: name + "-platform"}, secret))
	assert.Equal(t, string(secret.Data["jwt-secret"]), harness.OriginalJWTSecret)
	assert.Equal(t, string(secret.Data["gateway-password"]), harness.OriginalGatewayPassword)

	for ; !k.life(skip, "adopt", name, "--undo", "--yes", "--original-stopped"); lives++ {
		if lives%each == 0 {
			restart()
		}
	}
	e.neverUnready()
	assert.DeepEqual(t, e.specs(), before)
	e.says(exitError, []string{nothingToUndo}, "adopt", name, "--undo", "--yes")
}

// named checks that a report has named all written objects.
func (e *env) named(r *adopt.Report, wrote []string) {
	e.Helper()
	known := map[string]bool{}
	for _, o := range r.Objects {
		for _, id := range append(o.Touches, o.Kind+"/"+o.Name) {
			kind, name, _ := strings.Cut(id, "/")
			known[strings.ToLower(kind)+"s/"+name] = true
		}
	}
	for _, id := range wrote {
		if !known[id] {
			e.Errorf("%s was written, and the report has not named it", id)
		}
	}
}

// neverUnready checks that every Service of the original operator always had a ready address.
func (e *env) neverUnready() {
	e.Helper()
	e.CatchUp()
	found := map[string]map[string]int{} // Service -> EndpointSlice -> number of ready addresses
	was := map[string]bool{}
	for _, c := range e.Since(0) {
		slice, ok := c.Object.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		service := slice.Labels[discoveryv1.LabelServiceName]
		if found[service] == nil {
			found[service] = map[string]int{}
		}
		delete(found[service], slice.Name)
		if c.Event != watch.Deleted {
			for _, endpoint := range slice.Endpoints {
				if isReady := endpoint.Conditions.Ready; isReady == nil || *isReady {
					found[service][slice.Name] += len(endpoint.Addresses)
				}
			}
		}
		ready := 0
		for _, n := range found[service] {
			ready += n
		}
		if isOriginal(service) && was[service] && ready == 0 {
			e.Errorf("Service %s had no ready address at %s", service, c.At)
		}
		was[service] = ready > 0
	}
	for _, c := range harness.OriginalComponents {
		if !was[c.Name] {
			e.Errorf("Service %s had no EndpointSlice: the test shows nothing", c.Name)
		}
	}
}

func isOriginal(service string) bool {
	return slices.ContainsFunc(harness.OriginalComponents, func(c harness.OriginalComponent) bool { return c.Name == service })
}

// specs returns the fields that an undo must restore: everything except status and fields that the API server sets.
func (e *env) specs() map[string]string {
	e.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &dsv1.DataServiceList{}} {
		e.Must(suite.API.List(e.Ctx, list, client.InNamespace(e.Namespace)))
		data, err := json.Marshal(list)
		e.Must(err)
		var items struct{ Items []map[string]any }
		e.Must(json.Unmarshal(data, &items))
		for _, item := range items.Items {
			delete(item, "status")
			metadata := item["metadata"].(map[string]any)
			id := fmt.Sprintf("%T/%s", list, metadata["name"])
			for _, key := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "annotations"} {
				delete(metadata, key)
			}
			text, err := json.Marshal(item)
			e.Must(err)
			found[id] = string(text)
		}
	}
	return found
}

// If the new pods of a component do not become ready, the command fails. The component's old pod still serves, and
// later components are not changed.
func TestAdoptionStopsAtAFailure(t *testing.T) {
	e := original(t, harness.Sample(fields{"api-manager": fields{"nodeSelector": fields{"no": "such-node"}}}))
	before := e.specs()
	e.Start()
	e.says(exitError, []string{"component api-manager: not within 2s: Deployment api-manager has 1 of 1 new pods, 1 available, 2 in all: no later component was changed"},
		"adopt", name, "--apply", "--yes", "--original-stopped", "--timeout", "2s")
	for _, c := range harness.OriginalComponents[3:] {
		d := &appsv1.Deployment{}
		e.Must(suite.API.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: c.Name}, d))
		assert.Equal(t, object.Marked(d), false, c.Name)
	}
	e.says(exitYes, []string{"all objects and the spec are restored"}, "adopt", name, "--undo", "--yes", "--original-stopped")
	e.neverUnready()
	assert.DeepEqual(t, e.specs(), before)
	for _, wrong := range [][]string{{"--apply", "--undo"}, {"--apply", "--timeout", "0s"}, {"--apply", "--timeout", "-1s"}} {
		e.says(exitError, []string{wrong[len(wrong)-1]}, append([]string{"adopt", name}, wrong...)...)
	}
	e.says(exitError, []string{"nothing was changed: answer yes, or give --yes"}, "adopt", name, "--apply", "--original-stopped")
	e.says(exitNo, []string{"--original-stopped"}, "adopt", name, "--apply", "--yes")
	assert.DeepEqual(t, e.specs(), before)
}
