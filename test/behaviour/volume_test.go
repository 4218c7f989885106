// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	dataClaim   = "data-mysql-dataservice-0"
	credentials = "mysql-dataservice-credentials"
)

// retained is what outlives a DataService whose database's volume is retained.
var retained = []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/" + dataClaim, "Secret/" + credentials}

// databaseOnly removes what a test about the database does not need; eureka stays, because a
// DataService is to have something.
var databaseOnly = fields{"web": nil, "proxy": nil, "uuc": nil, "auth": nil}

// database is what the database is, with its volume retained or deleted; without a kind it is taken out of the spec.
type database struct{ kind, retention string }

func (d database) spec() fields {
	switch d.kind {
	case "":
		return fields{"mysql": nil}
	case "ThirdParty":
		return fields{"mysql": fields{"kind": d.kind, "storage": fields{"retention": d.retention},
			"thirdParty": fields{"url": "mysql://db.example.org:3306", "username": "app", "password": "somewhere-else"}}}
	default:
		return fields{"mysql": fields{"kind": d.kind, "storage": fields{"retention": d.retention}, "thirdParty": nil}}
	}
}

// What a database is, one after the other, before its DataService is deleted: in the short form, and in the full form besides.
var databases = [][]database{
	{{"StatefulSet", "Delete"}},
	{{"Deployment", "Delete"}},
	{{"StatefulSet", "Retain"}, {"StatefulSet", "Delete"}},
	{{"StatefulSet", "Delete"}, {"StatefulSet", "Retain"}},
	{{"Deployment", "Retain"}, {"Deployment", "Delete"}},
	{{"Deployment", "Delete"}, {"Deployment", "Retain"}},
	{{"StatefulSet", "Delete"}, {"", "Delete"}},
	{{"StatefulSet", "Retain"}, {"", "Retain"}},
	{{"Deployment", "Delete"}, {"", "Delete"}},
	{{"Deployment", "Retain"}, {"", "Retain"}},
	{{"Deployment", "Delete"}, {"StatefulSet", "Delete"}, {"Deployment", "Delete"}, {"StatefulSet", "Delete"}},
	{{"StatefulSet", "Delete"}, {"DaemonSet", "Delete"}, {"StatefulSet", "Delete"}},
	{{"StatefulSet", "Delete"}, {"ThirdParty", "Delete"}, {"Deployment", "Delete"}},
	{{"Deployment", "Delete"}, {"StatefulSet", "Retain"}},
	{{"StatefulSet", "Retain"}, {"Deployment", "Delete"}},
}

var moreDatabases = [][]database{
	{{"Deployment", "Delete"}, {"StatefulSet", "Delete"}},
	{{"StatefulSet", "Delete"}, {"Deployment", "Delete"}},
	{{"Deployment", "Delete"}, {"DaemonSet", "Delete"}, {"Deployment", "Delete"}},
	{{"Deployment", "Delete"}, {"ThirdParty", "Delete"}, {"Deployment", "Delete"}},
	{{"StatefulSet", "Delete"}, {"ThirdParty", "Delete"}, {"StatefulSet", "Delete"}},
	{{"StatefulSet", "Retain"}, {"Deployment", "Retain"}, {"StatefulSet", "Retain"}},
	{{"StatefulSet", "Retain"}, {"DaemonSet", "Retain"}, {"StatefulSet", "Retain"}},
	{{"StatefulSet", "Retain"}, {"ThirdParty", "Retain"}, {"StatefulSet", "Retain"}},
	{{"StatefulSet", "Delete"}, {"Deployment", "Retain"}},
	{{"Deployment", "Retain"}, {"StatefulSet", "Delete"}},
	{{"Deployment", "Delete"}, {"DaemonSet", "Retain"}},
	{{"StatefulSet", "Delete"}, {"DaemonSet", "Retain"}},
	{{"Deployment", "Delete"}, {"ThirdParty", "Retain"}},
	{{"StatefulSet", "Delete"}, {"ThirdParty", "Retain"}},
	{{"Deployment", "Delete"}, {"ThirdParty", "Delete"}, {"StatefulSet", "Retain"}},
}

// Whatever the database's kind and the retention of its volume are changed to, and back, its volume and its passwords stay the
// same, whoever was to delete them before. With the database they go, and with the DataService, exactly when the spec says so at
// that time. Deleting the DataService needs no operator, and what stays is taken up by the next one of that name.
func TestDataGoesOnlyWhenToldSo(t *testing.T) {
	t.Parallel()
	for i, steps := range slices.Concat(databases, moreDatabases) {
		t.Run(strings.Trim(fmt.Sprint(steps), "[]"), func(t *testing.T) {
			if i >= len(databases) {
				harness.Long(t)
			}
			e := parallel(t)
			op := e.Start()
			mark := e.Mark()
			last := steps[len(steps)-1]
			ds := e.CreateReady(small(databaseOnly, steps[0].spec()))
			claim, password := e.claim(), e.password()
			for _, step := range steps[1:] {
				e.ChangeReady(ds, step.spec())
				e.workloadOf(step.kind)
				if step.kind == "" && step.retention == "Delete" {
					e.Until("it goes with the database", func() error {
						return stage.Unless(e.Object("PersistentVolumeClaim/"+dataClaim) == nil && e.Object("Secret/"+credentials) == nil, "it is there")
					})
					break
				}
				e.Rests(op, glance)
				e.neverDeleted(mark, claim)
				e.sameData(claim, password)
			}
			op.Stop()
			e.remove(ds)
			if last.retention == "Delete" {
				e.Until("nothing is left", func() error { return saying(harness.Difference(e.left(), nil)) })
				return
			}
			e.Until("only data is left", func() error { return saying(harness.Difference(e.left(), retained)) })
			e.Start()
			e.CreateReady(small(databaseOnly, steps[0].spec()))
			e.neverDeleted(mark, claim)
			e.sameData(claim, password)
		})
	}
}

// left returns what is in the namespace but for what every namespace has.
func (e *env) left() []string {
	return slices.DeleteFunc(harness.IDs(e.All()), func(id string) bool {
		return id == "ConfigMap/kube-root-ca.crt" || strings.HasPrefix(id, "Event/")
	})
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

// claim returns the claim of the database.
func (e *env) claim() *corev1.PersistentVolumeClaim {
	e.Helper()
	claim := harness.Lookup[*corev1.PersistentVolumeClaim](e.Journal, dataClaim)
	if claim == nil {
		e.Fatal("the database has no claim")
	}
	return claim
}

// password returns the passwords of the database.
func (e *env) password() string {
	e.Helper()
	secret := harness.Lookup[*corev1.Secret](e.Journal, credentials)
	if secret == nil || len(secret.Data["password"]) < 16 || len(secret.Data["root-password"]) < 16 {
		e.Fatal("the database has no password")
	}
	return string(secret.Data["password"]) + string(secret.Data["root-password"])
}

func (e *env) sameData(claim *corev1.PersistentVolumeClaim, password string) {
	e.Helper()
	if now := e.claim(); now.UID != claim.UID || now.DeletionTimestamp != nil {
		e.Errorf("the claim is another one, or goes: %s, deleted %v; was %s", now.UID, now.DeletionTimestamp, claim.UID)
	}
	if e.password() != password {
		e.Error("the password is another one")
	}
}

// neverDeleted fails the test if the database's claim, or the Secret that opens it, has been deleted
// or replaced, even if only for a moment.
func (e *env) neverDeleted(mark int, claim *corev1.PersistentVolumeClaim) {
	e.Helper()
	for _, c := range e.Since(mark) {
		o := c.Object
		switch {
		case c.ID == "PersistentVolumeClaim/"+dataClaim && (o.GetUID() != claim.UID || o.GetDeletionTimestamp() != nil):
			e.Fatalf("%s of the claim: UID %s (was %s), deleted %v", c.Event, o.GetUID(), claim.UID, o.GetDeletionTimestamp())
		case c.ID == "Secret/"+credentials && (c.Event == "DELETED" || o.GetDeletionTimestamp() != nil):
			e.Fatal("the passwords were deleted")
		}
	}
}
