// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/chaos/oracle"
	"d3os.com/d3os-operator/test/harness"
)

type fields = harness.Fields

// compact returns a DataService with a few components of different kinds.
func compact(changes ...fields) *unstructured.Unstructured {
	only := fields{
		"uuc": nil, "web": nil, "auth": nil,
		"additionalServices": []any{fields{"name": "hello", "image": "registry.example/hello:v1", "port": 8080}},
	}
	return harness.Small(append([]fields{only}, changes...)...)
}

// scenario is a change that the operator has to carry out.
type scenario struct {
	name   string
	before *unstructured.Unstructured // a DataService that is ready before the scenario; nil: there is no DataService
	then   func(*scene)               // preparation that needs a running operator
	act    func(*scene)
	gone   bool                     // the end state contains no DataService
	asleep bool                     // the end state is hibernated
	check  func(oracle.State) error // returns an error if the run without faults did not have the expected effect
	full   bool                     // only with CHAOS=full

	repeats bool // some objects are written several times

	once sync.Once
	base *baseline
	err  error
}

// baseline is a run without faults.
type baseline struct {
	end    oracle.State
	writes []harness.Sent // writes during act
}

// changes returns a scenario that patches the spec of a compact DataService.
func changes(name string, spec fields, has ...string) *scenario {
	return &scenario{
		name: name, before: compact(), act: func(s *scene) { s.change(spec) }, check: contains(has...),
	}
}

// contains expects words in the state. A word that begins with an exclamation mark must be absent.
func contains(words ...string) func(oracle.State) error {
	return func(state oracle.State) error {
		text := fmt.Sprint(map[string]any(state))
		for _, word := range words {
			word, absent := strings.CutPrefix(word, "!")
			if strings.Contains(text, word) == absent {
				return fmt.Errorf("the state contains %q: %t, want %t: %s", word, absent, !absent, text)
			}
		}
		return nil
	}
}

func leaves(ids ...string) func(oracle.State) error {
	return func(state oracle.State) error {
		var left []string
		for _, id := range state.IDs() {
			if !strings.HasPrefix(id, "Lives/") {
				left = append(left, id)
			}
		}
		if diff := harness.Difference(left, ids); diff != "" {
			return fmt.Errorf("left: %s", diff)
		}
		return nil
	}
}

var retained = []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials"}

func remove(s *scene) {
	s.Helper()
	s.Must(api.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.name}}))
}

func removeForeground(s *scene) {
	s.Helper()
	s.Must(api.Delete(s.Ctx, &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.name}},
		client.PropagationPolicy(metav1.DeletePropagationForeground)))
}

// mysqlAs returns a patch that sets the kind of the database and the retention of its volume.
func mysqlAs(kind, retention string) fields {
	return fields{"mysql": fields{"kind": kind, "storage": fields{"retention": retention}}}
}

// drift changes running objects so that the operator needs several writes to correct them.
func drift(s *scene) {
	s.Helper()
	patch := func(object client.Object, name, body string) {
		object.SetNamespace(s.Namespace)
		object.SetName(name)
		s.Must(api.Patch(s.Ctx, object, client.RawPatch(types.StrategicMergePatchType, []byte(body))))
	}
	patch(&corev1.ConfigMap{}, "proxy", `{"data":{"stray":"x"}}`)
	patch(&corev1.Service{}, "proxy", `{"spec":{"ports":[{"$patch":"replace"},{"name":"http","port":1234}]}}`)
	patch(&appsv1.Deployment{}, "hello", `{"spec":{"template":{"spec":{"containers":[{"name":"hello","env":[{"name":"STRAY","value":"x"}]}]}}}}`)
	s.Must(api.Delete(s.Ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "hello"}}))
}

// undrifted returns an error unless the operator has corrected all changes of drift.
func undrifted(s *scene) error {
	state := fmt.Sprint(map[string]any(s.state(true)))
	if strings.Contains(strings.ToLower(state), "stray") || strings.Contains(state, "1234") || !strings.Contains(state, "Lives/Service/hello:2") {
		return fmt.Errorf("the operator has not corrected a change by another writer")
	}
	return nil
}

// everyWrite are scenarios in which the operator crashes at each write, even without CHAOS=full: a create, updates in one step and in
// several, deletes, and corrections of drift.
var everyWrite = []string{"create", "image", "kind-delete", "kind-retain", "volume", "hibernate", "wake", "delete", "delete-data", "delete-foreground", "drift"}

// scenarios are the changes that the operator carries out under faults.
var scenarios = []*scenario{
	{name: "create", act: func(s *scene) { s.create(compact()) }, check: contains("Deployment/hello", "StatefulSet/mysql-dataservice", "4/4")},
	changes("image", fields{"proxy": fields{"image": "registry.example/proxy:v2"}}, "registry.example/proxy:v2"),
	changes("config", fields{"eureka": fields{"port": 8762}, "defaults": fields{"timeZone": "Europe/Berlin"}}, "8762", "Europe/Berlin"),
	changes("removed", fields{"additionalServices": nil, "proxy": nil}, "!Deployment/hello", "!Service/proxy", "Deployment/eureka"),
	changes("third-party", fields{"mysql": fields{"kind": "ThirdParty", "thirdParty": fields{
		"url": "mysql://db.example.com:3306", "username": "app", "password": "hush"}}}, "!StatefulSet/", "ExternalName", "PersistentVolumeClaim/"),
	changes("kind", fields{"mysql": fields{"kind": "Deployment"}}, "!StatefulSet/", "Deployment/mysql-dataservice"),
	{name: "kind-delete", before: compact(mysqlAs("Deployment", "Delete")), act: func(s *scene) { s.change(mysqlAs("StatefulSet", "Delete")) },
		check: contains("Lives/PersistentVolumeClaim/data-mysql-dataservice-0:1", "Lives/Secret/mysql-dataservice-credentials:1", "!Deployment/mysql-dataservice")},
	{name: "kind-retain", before: compact(mysqlAs("StatefulSet", "Delete")), act: func(s *scene) { s.change(mysqlAs("Deployment", "Retain")) },
		check: contains("Lives/PersistentVolumeClaim/data-mysql-dataservice-0:1", "Lives/Secret/mysql-dataservice-credentials:1", "!StatefulSet/")},
	changes("volume", fields{"mysql": fields{"storage": fields{"size": "20Gi"}}}, "20Gi", "Lives/StatefulSet/mysql-dataservice:2", "Lives/PersistentVolumeClaim/data-mysql-dataservice-0:1"),
	changes("headless", fields{"proxy": fields{"serviceType": "Headless"}}, "clusterIP:None", "Lives/Service/proxy:2"),
	changes("users", fields{"mysql": fields{"users": []any{fields{"name": "reporter"}}}}, "Secret/mysql-dataservice-users"),
	changes("credentials", fields{"mysql": fields{"credentialsSecret": "my-account"}}, "my-account"),
	changes("autoscaling", fields{"additionalServices": []any{fields{"name": "hello", "image": "registry.example/hello:v1", "port": 8080,
		"autoscaling": fields{"min": 1, "max": 3}}}}, "HorizontalPodAutoscaler/hello"),
	{name: "hibernate", before: compact(), act: func(s *scene) { s.change(fields{"hibernate": true}) }, asleep: true,
		check: contains("!Pods/", "Lives/Service/hello:1", "Lives/StatefulSet/mysql-dataservice:1", "Lives/PersistentVolumeClaim/data-mysql-dataservice-0:1")},
	{name: "wake", before: compact(), act: func(s *scene) { s.change(fields{"hibernate": nil}) },
		then: func(s *scene) {
			s.change(fields{"hibernate": true})
			s.Until("it is hibernated", s.isHibernated)
		}, check: contains("4/4", "Lives/StatefulSet/mysql-dataservice:1", "Lives/PersistentVolumeClaim/data-mysql-dataservice-0:1", "!hibernated")},
	{name: "drift", before: compact(), act: drift, repeats: true},
	{name: "delete", before: compact(), act: remove, gone: true, check: leaves(retained...)},
	{name: "delete-data", before: compact(fields{"mysql": fields{"storage": fields{"retention": "Delete"}}}), act: remove, gone: true, check: leaves()},
	{name: "delete-foreground", before: compact(), act: removeForeground, gone: true, check: leaves(retained...)},
	{name: "recreate", before: compact(), act: func(s *scene) { s.create(compact()) },
		then: func(s *scene) { remove(s); s.Until("all goes", s.isGone) }, check: contains("Lives/Secret/mysql-dataservice-credentials:1", "Lives/PersistentVolumeClaim/data-mysql-dataservice-0:1")},
	{name: "sample", act: func(s *scene) { s.create(harness.Sample()) }, check: contains("12/12")},
	{name: "everything", full: true, act: func(s *scene) {
		s.Must(harness.Prerequisites(s.Ctx, api, s.Namespace))
		s.create(everything())
	}},
}

// everything returns the sample with every field, except node ports and fields that need the agent's image. A cluster can use a node port
// only once. This operator does not have the agent's image.
func everything() *unstructured.Unstructured {
	ds := harness.Read("config/samples/everything.yaml", fields{"web": fields{"nodePort": nil}, "mysql": fields{"restoreFrom": nil}})
	services, _, _ := unstructured.NestedSlice(ds.Object, "spec", "additionalServices")
	for _, service := range services {
		service := service.(fields)
		delete(service, "nodePort")
		ports, _ := service["ports"].([]any)
		for _, port := range ports {
			delete(port.(fields), "nodePort")
		}
	}
	if err := unstructured.SetNestedSlice(ds.Object, services, "spec", "additionalServices"); err != nil {
		panic(err)
	}
	return ds
}

// scenarioOf finds a scenario by name.
func scenarioOf(name string) *scenario {
	for _, sc := range scenarios {
		if sc.name == name {
			return sc
		}
	}
	panic("no scenario " + name)
}

// prepare creates the state before the scenario, with a running operator.
func (sc *scenario) prepare(s *scene) {
	s.Helper()
	if sc.before != nil {
		s.create(sc.before)
		s.Until("ready before anything happens", s.isReady)
	}
	if sc.then != nil {
		sc.then(s)
	}
}

// ended returns an error that names an unfinished part of the scenario, or nil. It compares no states.
func (sc *scenario) ended(s *scene) error {
	switch {
	case sc.gone:
		return s.isGone()
	case sc.asleep:
		return s.isHibernated()
	case sc.name == "drift":
		return errors.Join(undrifted(s), s.isReady())
	default:
		return s.isReady()
	}
}

// leaving returns an error while pods are being deleted. On a busy machine, the deletion may take longer than the operator's idle time.
func leaving(state oracle.State) error {
	for id := range state {
		if strings.HasPrefix(id, "Pods/") && strings.HasSuffix(id, " being deleted") {
			return fmt.Errorf("%s still exists", id)
		}
	}
	return nil
}

// without runs the scenario without faults, once.
func (sc *scenario) without(t *testing.T) *baseline {
	t.Helper()
	sc.once.Do(func() {
		sc.err = fmt.Errorf("the run without faults failed")
		s := newStage(t)
		op := s.start()
		sc.prepare(s)
		mark := op.Mark()
		sc.act(s)
		s.Until("the scenario is carried out", func() error { return sc.ended(s) })
		var end oracle.State
		s.Until("the state is stable", func() (err error) {
			if end, err = s.quiet(op, stare, true); err != nil {
				return err
			}
			return leaving(end)
		})
		if sc.check != nil {
			s.Must(sc.check(end))
		}
		s.stop(op)
		sc.base, sc.err = &baseline{end: end, writes: op.Since(mark, writes)}, nil
	})
	if sc.err != nil {
		t.Fatal(sc.err)
	}
	return sc.base
}
