// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build example

// Package example_test runs the operator with the additional kind Ledger, on a real API server with simulated pods.
package example_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/example"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// annotationRecord is the annotation with the record.
const annotationRecord = "example.d3os-product.com.d3os/record"

// scene is a namespace of a test, and the servers in its pods.
type scene struct {
	*stage.Stage

	members *members
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	s := suite.New(t)
	return &scene{s, &members{Stage: s, data: map[types.UID]string{}}}
}

// operator is an operator with faults: a test can make its requests to the API server and to members fail.
type operator struct {
	*harness.Operator
	*fault.Process
}

// start starts an operator with the kind Ledger, and waits until it is active.
func (s *scene) start() *operator {
	s.Helper()
	return s.run(example.GroupVersion)
}

// run starts an operator with the kind Ledger of an API group.
func (s *scene) run(gv schema.GroupVersion) *operator {
	s.Helper()
	process := fault.New()
	config := rest.CopyConfig(suite.Config)
	config.Wrap(process.Wrap)
	running, err := harness.Start(s.Ctx, config, harness.ManagerOptions(s.Namespace), func(op *manager.Operator) error {
		return example.Register(op, gv, process.Wrap(s.members))
	})
	s.Must(err)
	op := &operator{Operator: running, Process: process}
	s.Cleanup(func() { s.stop(op) })
	s.Must(op.Active(patience))
	return op
}

// stop ends an operator, crashed or not, and waits until it has ended.
func (s *scene) stop(op *operator) {
	s.Helper()
	if err := op.Stop(patience); err != nil {
		s.Error(err)
	}
}

func writes(r harness.Sent) bool { return r.Writes() }

// create creates a Ledger.
func (s *scene) create(spec example.LedgerSpec) {
	s.Helper()
	s.Must(suite.API.Create(s.Ctx, &example.Ledger{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: one}, Spec: spec}))
}

// change patches the spec of the Ledger (JSON merge patch in YAML).
func (s *scene) change(spec string) {
	s.Helper()
	s.Patch(&example.Ledger{ObjectMeta: metav1.ObjectMeta{Name: one}}, spec)
}

func (s *scene) read() *example.Ledger {
	l := &example.Ledger{ObjectMeta: metav1.ObjectMeta{Name: one}}
	s.Read(l)
	return l
}

// isReady returns the reason why the Ledger is not ready in its latest generation, or nil.
func (s *scene) isReady() error {
	l := s.read()
	if l.Status.ObservedGeneration != l.Generation || l.Status.Phase != example.PhaseRunning || !meta.IsStatusConditionTrue(l.Status.Conditions, "Ready") {
		return fmt.Errorf("generation %d, status %+v", l.Generation, l.Status)
	}
	return nil
}

// hasReason waits until the status has a reason.
func (s *scene) hasReason(reason string) {
	s.Helper()
	s.Until("reason "+reason, func() error {
		if l := s.read(); l.Status.Reason != reason || l.Status.ObservedGeneration != l.Generation {
			return fmt.Errorf("status %+v", l.Status)
		}
		return nil
	})
}

// written fails the test unless an operator wrote these objects since a mark, and no other objects.
func (s *scene) written(op *operator, mark int, want ...string) {
	s.Helper()
	if diff := harness.Difference(harness.Objects(op.Since(mark, func(r harness.Sent) bool { return r.WritesObject() })), want); diff != "" {
		s.Errorf("written: %s", diff)
	}
}

// passes waits until an operator has reconciled the Ledger twice after the call, each time because the settings have changed. It fails the
// test if the operator has changed anything else. Reconciliations of a Ledger run one after the other, so all effects of earlier events are
// then complete. An operator whose cache lags may delete a deleted object once more: the API server answers 404, and nothing changes.
func (s *scene) passes(op *operator) {
	s.Helper()
	mark := op.Mark()
	for _, spec := range []string{"{settings: {pass: again}}", "{settings: {pass: null}}"} {
		s.change(spec)
		s.Until("the operator passes", func() error {
			l := s.read()
			return stage.Unless(l.Status.ObservedGeneration == l.Generation, "it does not")
		})
	}
	changes := func(sent harness.Sent) bool {
		return writes(sent) && !sent.WritesStatus() && sent.Code != http.StatusNotFound && sent.Name != one+"-settings"
	}
	if wrote := op.Since(mark, changes); len(wrote) > 0 {
		s.Errorf("the operator still writes: %v", wrote)
	}
}

// isWhole waits until the Ledger is ready. Then it fails the test unless the volume of each pod has the data in the record.
func (s *scene) isWhole(pods int) {
	s.Helper()
	s.Until("ready", s.isReady)
	for i := range pods {
		pod, record := database.PodName(one, i), s.record().Annotations[annotationRecord]
		if data := s.members.on("data-" + pod); data == "" || record != `{"data":"`+data+`"}` {
			s.Errorf("pod %s has the data %q, the record has %s", pod, data, record)
		}
	}
}

// members are the servers in the pods of a scene. They store data by claim, so the data outlives pods.
type members struct {
	*stage.Stage

	mu      sync.Mutex
	data    map[types.UID]string // by the UID of the claim
	effects []string
}

func (m *members) claim(name string) types.UID {
	if claim := harness.Lookup[*corev1.PersistentVolumeClaim](m.Journal, name); claim != nil {
		return claim.UID
	}
	return ""
}

// on returns the data on a claim.
func (m *members) on(claim string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data[m.claim(claim)]
}

// took returns the effects on members, in order.
func (m *members) took() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.effects)
}

// RoundTrip answers a request to a pod. While the pod is not ready, it returns an error.
func (m *members) RoundTrip(r *http.Request) (*http.Response, error) {
	pod, _, _ := strings.Cut(r.URL.Hostname(), ".")
	live, claim := harness.Lookup[*corev1.Pod](m.Journal, pod), m.claim("data-"+pod)
	if live == nil || claim == "" || !stage.IsReady(live) {
		return nil, errors.New("connection refused")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	code, id, effect := http.StatusOK, m.data[claim], "create "+pod
	switch r.Method + r.URL.Path {
	case "PUT/data":
		id = r.URL.Query().Get("id")
	case "PUT/copy":
		id, effect = m.data[m.claim("data-"+r.URL.Query().Get("from"))], "copy "+pod
	}
	secret := harness.Lookup[*corev1.Secret](m.Journal, live.Labels[object.LabelInstance]+"-password")
	_, password, _ := r.BasicAuth()
	switch had := m.data[claim]; {
	case secret == nil || password != string(secret.Data["password"]):
		code = http.StatusUnauthorized
	case had != "" && (had != id || r.URL.Path == "/copy"):
		code = http.StatusConflict
	case had != id:
		m.data[claim], m.effects = id, append(m.effects, effect)
	}
	answer := httptest.NewRecorder()
	answer.WriteHeader(code)
	_, err := answer.WriteString(m.data[claim])
	return answer.Result(), err
}

// lose empties all volumes.
func (m *members) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.data)
}

// patience is the time limit of each wait. Only a hang exceeds it, even on a busy machine.
const patience = 5 * time.Minute

var suite = &stage.Suite{
	Patience: func() time.Duration { return patience },
	Lists: []client.ObjectList{
		&example.LedgerList{}, &dsv1.DataServiceList{},
		&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.StatefulSetList{}, &corev1.PodList{},
	},
}

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, cluster.Options{Name: "example", Nodes: 8}, func(ctx context.Context) error {
		example.AddToScheme(suite.API.Scheme(), example.GroupVersion)
		return install(ctx, example.GroupVersion)
	}))
}

// install installs the CRD of Ledgers in an API group and waits until the API server serves them.
func install(ctx context.Context, gv schema.GroupVersion) error {
	data, err := os.ReadFile("crd.yaml")
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(data), example.GroupVersion.Group, gv.Group)), &crd.Object); err != nil {
		return err
	}
	return harness.Install(ctx, suite.API, crd, "example")
}
