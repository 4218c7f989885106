// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
)

const dataClaim = "data-mysql-dataservice-0"

// databaseAs returns what makes the database one of a kind, with its volume retained or deleted.
func databaseAs(kind, retention string) fields {
	mysql := fields{"kind": kind, "storage": fields{"retention": retention}, "thirdParty": nil}
	if kind == "ThirdParty" {
		mysql["thirdParty"] = fields{"url": "mysql://db.example.org:3306", "username": "app", "password": "somewhere-else"}
	}
	return fields{"mysql": mysql}
}

// databaseOnly removes what a test about the database does not need; eureka stays, because a
// DataService is to have something.
var databaseOnly = fields{"web": nil, "proxy": nil, "uuc": nil, "auth": nil}

// neverDeleted fails the test if the database's claim, or the Secret that opens it, has been deleted
// or replaced, even if only for a moment.
func (e *env) neverDeleted(mark int, claim *corev1.PersistentVolumeClaim) {
	e.Helper()
	for _, c := range e.Since(mark) {
		o := c.Object
		switch {
		case c.ID == "PersistentVolumeClaim/"+dataClaim && (o.GetUID() != claim.UID || o.GetDeletionTimestamp() != nil):
			e.Fatalf("%s of the claim: UID %s (was %s), deleted %v", c.Event, o.GetUID(), claim.UID, o.GetDeletionTimestamp())
		case c.ID == "Secret/mysql-dataservice-credentials" && (c.Event == "DELETED" || o.GetDeletionTimestamp() != nil):
			e.Fatal("the passwords were deleted")
		}
	}
}

// workloadOf waits until the database has the workload of its kind alone: none for ThirdParty.
func (e *env) workloadOf(kind string) {
	e.Helper()
	e.Until("only "+kind+" is left", func() error {
		for _, other := range []string{"StatefulSet", "Deployment", "DaemonSet"} {
			if there := e.Object(other+"/mysql-dataservice") != nil; there != (other == kind) {
				return fmt.Errorf("%s is there: %t", other, there)
			}
		}
		return nil
	})
}

// Whatever the database's kind is changed to, and back, its volume and its passwords stay the same,
// whoever was to delete them before; and with the DataService they go exactly when the spec says so
// at that time.
func TestDataOutlivesEachChangeOfKind(t *testing.T) {
	t.Parallel()
	type step struct{ kind, retention string }
	short := []string{"Deployment, StatefulSet and back", "StatefulSet, DaemonSet and back", "StatefulSet, ThirdParty, Deployment",
		"Deployment, retained StatefulSet", "retained StatefulSet, Deployment"}
	for name, steps := range map[string][]step{
		"Deployment, StatefulSet":                {{"Deployment", "Delete"}, {"StatefulSet", "Delete"}},
		"StatefulSet, Deployment":                {{"StatefulSet", "Delete"}, {"Deployment", "Delete"}},
		"Deployment, StatefulSet and back":       {{"Deployment", "Delete"}, {"StatefulSet", "Delete"}, {"Deployment", "Delete"}, {"StatefulSet", "Delete"}},
		"Deployment, DaemonSet and back":         {{"Deployment", "Delete"}, {"DaemonSet", "Delete"}, {"Deployment", "Delete"}},
		"StatefulSet, DaemonSet and back":        {{"StatefulSet", "Delete"}, {"DaemonSet", "Delete"}, {"StatefulSet", "Delete"}},
		"Deployment, ThirdParty and back":        {{"Deployment", "Delete"}, {"ThirdParty", "Delete"}, {"Deployment", "Delete"}},
		"StatefulSet, ThirdParty and back":       {{"StatefulSet", "Delete"}, {"ThirdParty", "Delete"}, {"StatefulSet", "Delete"}},
		"StatefulSet, ThirdParty, Deployment":    {{"StatefulSet", "Delete"}, {"ThirdParty", "Delete"}, {"Deployment", "Delete"}},
		"retained StatefulSet, DaemonSet":        {{"StatefulSet", "Retain"}, {"DaemonSet", "Retain"}, {"StatefulSet", "Retain"}},
		"Deployment, retained StatefulSet":       {{"Deployment", "Delete"}, {"StatefulSet", "Retain"}},
		"StatefulSet, retained Deployment":       {{"StatefulSet", "Delete"}, {"Deployment", "Retain"}},
		"retained Deployment, StatefulSet":       {{"Deployment", "Retain"}, {"StatefulSet", "Delete"}},
		"retained StatefulSet, Deployment":       {{"StatefulSet", "Retain"}, {"Deployment", "Delete"}},
		"Deployment, retained DaemonSet":         {{"Deployment", "Delete"}, {"DaemonSet", "Retain"}},
		"StatefulSet, retained DaemonSet":        {{"StatefulSet", "Delete"}, {"DaemonSet", "Retain"}},
		"Deployment, retained ThirdParty":        {{"Deployment", "Delete"}, {"ThirdParty", "Retain"}},
		"StatefulSet, retained ThirdParty":       {{"StatefulSet", "Delete"}, {"ThirdParty", "Retain"}},
		"Deployment, ThirdParty, then to retain": {{"Deployment", "Delete"}, {"ThirdParty", "Delete"}, {"StatefulSet", "Retain"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(short, name) {
				harness.Long(t)
			}
			e := parallel(t)
			op := e.Start()
			mark := e.Mark()
			ds := e.CreateReady(small(databaseOnly, databaseAs(steps[0].kind, steps[0].retention)))
			claim, password := e.claim(), e.password()
			for _, s := range steps[1:] {
				e.ChangeReady(ds, databaseAs(s.kind, s.retention))
				e.workloadOf(s.kind)
				e.rests(op)
				e.neverDeleted(mark, claim)
				e.sameData(claim, password)
			}
			op.Stop()
			e.remove(ds)
			var want []string
			if steps[len(steps)-1].retention == "Retain" {
				want = []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/" + dataClaim, "Secret/mysql-dataservice-credentials"}
				e.Until("pods go", func() error { return unless(len(harness.Every[*corev1.Pod](e.Journal)) == 0, "some are still there") })
			}
			e.Until("what is left", func() error { return saying(harness.Difference(e.left(), want)) })
		})
	}
}

// A database that is taken out of the spec takes its volume along exactly when it was told so.
func TestDatabaseThatIsRemoved(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"StatefulSet", "Deployment"} {
		for _, retention := range []string{"Delete", "Retain"} {
			t.Run(kind+"/"+retention, func(t *testing.T) {
				e := parallel(t)
				op := e.Start()
				name := e.CreateReady(small(databaseOnly, databaseAs(kind, retention)))
				claim, password := e.claim(), e.password()
				mark := e.Mark()
				e.ChangeReady(name, fields{"mysql": nil})
				e.workloadOf("")
				if retention == "Retain" {
					e.rests(op)
					e.neverDeleted(mark, claim)
					e.sameData(claim, password)
					return
				}
				e.Until("its volume and passwords go", func() error {
					return unless(e.Object("PersistentVolumeClaim/"+dataClaim) == nil && e.Object("Secret/mysql-dataservice-credentials") == nil, "they are still there")
				})
			})
		}
	}
}
