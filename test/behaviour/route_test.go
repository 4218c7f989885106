// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// A service with an httpRoute becomes ready without the CRDs of the Gateway API, and gets its route once the CRDs exist. The operator
// restores the route like any other object, names a Gateway that refuses the route, and deletes the route when httpRoute is removed.
func TestHTTPRoute(t *testing.T) {
	e, late := parallel(t), alone(t)
	e.Start()
	late.Start() // the first route of this operator is planned when the CRD exists already
	route := fields{"gateways": []any{fields{"name": "public", "namespace": "gateways"}}, "hosts": []any{"data.example.com"}}
	name := e.Create(small(fields{"web": fields{"httpRoute": route}}))
	e.Until("web runs without its route", func() error {
		if err := e.mentions(name, "web", "HTTPRoute web", "install the CRDs of the Gateway API"); err != nil {
			return err
		}
		return e.component(name, "web", dsv1.PhaseRunning)
	})

	data, err := os.ReadFile("testdata/httproute.yaml")
	e.Must(err)
	crd := &unstructured.Unstructured{}
	e.Must(yaml.Unmarshal(data, &crd.Object))
	e.Must(api.Create(e.Ctx, crd)) // the test does not delete the CRD, because operators that watch it would detect the deletion
	live := object.Empty(object.Route)
	read := func(e *env) error { return api.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "web"}, live) }
	e.Until("the route is created", func() error { return read(e) })
	e.Ready(name)
	if e.eventCount("DriftCorrected") > 0 {
		t.Error("an event reports the first route as the repair of a deleted route")
	}

	hosts := func() []string {
		found, _, _ := unstructured.NestedStringSlice(live.Object, "spec", "hostnames")
		return found
	}
	late.CreateReady(small(fields{"web": fields{"httpRoute": route}}))
	for _, e := range []*env{late, late, late, e} { // a reconciliation that has begun for another reason may restore the first change
		e.Must(read(e))
		e.Must(unstructured.SetNestedStringSlice(live.Object, []string{"other.example.com"}, "spec", "hostnames"))
		e.Must(api.Update(e.Ctx, live))
		e.Until("a changed route is restored", func() error {
			if err := read(e); err != nil || len(hosts()) != 1 || hosts()[0] != "data.example.com" {
				return errors.Join(err, errors.New("the route has the hosts of another"))
			}
			return nil
		})
	}
	generation := live.GetGeneration()
	e.passes(name)
	e.Must(read(e))
	if live.GetGeneration() != generation {
		t.Errorf("an unchanged route is written: generation %d, then %d", generation, live.GetGeneration())
	}

	e.Must(unstructured.SetNestedSlice(live.Object, []any{fields{
		"parentRef": fields{"name": "public", "namespace": "gateways"}, "controllerName": "example.com/gateway",
		"conditions": []any{fields{
			"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "message": "no listener admits it", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}},
	}}, "status", "parents"))
	e.Must(api.Status().Update(e.Ctx, live))
	e.Until("a route that its Gateway refuses is named", func() error {
		return e.mentions(name, "web", "HTTPRoute web: NotAllowedByListeners: Gateway gateways/public: no listener admits it")
	})

	e.ChangeReady(name, fields{"web": fields{"httpRoute": nil}})
	e.Until("the route is removed with its field", func() error {
		if err := read(e); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("the route is still there"))
		}
		return nil
	})
}
