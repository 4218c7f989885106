// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/etcd/server"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

type lease struct{}

func (lease) Held() bool { return true }

// While a cluster is paused or its spec is refused, the operator still writes the position of each member's data to the member's claim, and
// to the ConfigMap that the agents read. In both states, no plan writes the ConfigMap.
func TestPositionsArePublishedWithoutAPlan(t *testing.T) {
	t.Parallel()
	for _, lacks := range []struct{ paused, unplanned bool }{{}, {paused: true}, {unplanned: true}} {
		ec := read(t, "minimal")
		ec.Spec.Paused = lacks.paused
		id := membership.ID(0xc1)
		kept, claim := object.Empty(object.ConfigMapKind), object.Empty(object.ClaimKind)
		for o, name := range map[*unstructured.Unstructured]string{kept: records.Name(ec.Name), claim: database.ClaimName(ec.Name, 0)} {
			o.SetNamespace(ec.Namespace)
			o.SetName(name)
			o.SetUID("of-it")
		}
		assert.NilError(t, unstructured.SetNestedStringMap(kept.Object, map[string]string{"about": "it"}, "data"))
		c := fake.NewClientBuilder().WithObjects(kept, claim).Build()
		live := func(o *unstructured.Unstructured) *unstructured.Unstructured {
			assert.NilError(t, c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			return o
		}
		k := &Kind{planner: testPlanner(t), client: c, live: c, servers: server.New(server.Options{}), now: time.Now}
		answer := membership.Answer{
			Cluster: id, Member: 2, Leader: 2, Version: "3.6.16", Linear: true, Members: []membership.Member{{ID: 2, Name: ec.Name + "-0", PeerURLs: wanted(ec).PeerURLs[:1]}},
			Term: 3, Index: 900, Applied: 900,
		}
		obs := &Observation{
			unplanned: lacks.unplanned,
			recordAt:  database.Version{UID: kept.GetUID(), Version: live(kept).GetResourceVersion()},
			View: membership.View{
				Live: 1, Record: membership.Record{Cluster: id, Replicas: 1, Version: "3.6.16"},
				Pods: []membership.Pod{{Name: ec.Name + "-0", UID: "u", IP: "192.0.2.1", Running: true, Ready: true, Outdated: true, Answer: &answer}},
				Claims: []membership.Claim{{
					Name: claim.GetName(), UID: string(claim.GetUID()), ResourceVersion: live(claim).GetResourceVersion(), Cluster: id, Member: 2, Version: "3.6.16",
					Position: membership.Position{Term: 3, Index: 100}, MarkedFor: time.Minute,
				}},
			},
		}
		decision := k.Decide(ec, reconcile.PlanSeen{}, obs)
		assert.Equal(t, decision.NoteAgain <= time.Second, true, "the positions of the other members are written next")
		assert.NilError(t, reconcile.NewRunner(lease{}).Run(t.Context(), decision.Notes))
		position, _, _ := unstructured.NestedString(live(claim).Object, "metadata", "annotations", annotationPosition)
		assert.Assert(t, len(position) > 6 && position[:6] == "3 900 ", position)
		data, _, _ := unstructured.NestedStringMap(live(kept).Object, "data")
		want := map[string]string{"about": "it"}
		if lacks.paused || lacks.unplanned {
			want[ec.Name+"-0"] = "c1 2 3 900"
		}
		assert.DeepEqual(t, data, want)

		obs.View.Claims[0].Position.Index = 900
		rest := k.Decide(ec, reconcile.PlanSeen{}, obs)
		assert.Equal(t, len(rest.Notes), 0)
		assert.Equal(t, rest.NoteAgain, pausedAgain)
	}
}

// A marked claim, or a claim with malformed annotations, may have data. Then no cluster is formed.
func TestNeverFormed(t *testing.T) {
	t.Parallel()
	owner := ownerOf(read(t, "minimal"))
	for name, c := range map[string]struct{ annotation, text, refused string }{
		"nothing is there": {},
		"marked":           {annotationMember, "c1", "is marked as the claim of member c1"},
		"malformed":        {annotationMember, "not-an-id", "has a malformed annotation: " + annotationMember},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := object.Empty(object.ClaimKind)
			claim.SetNamespace(owner.Namespace)
			claim.SetName(database.ClaimName(owner.Name, 2))
			claim.SetAnnotations(map[string]string{c.annotation: c.text})
			err := (&cluster{Cluster: database.Cluster{Owner: owner, Live: fake.NewClientBuilder().WithObjects(claim).Build()}, now: time.Now()}).NeverFormed(t.Context())
			if c.refused == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.refused)
		})
	}
}
