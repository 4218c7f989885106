// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	dataClaim   = "data-mysql-dataservice-0"
	credentials = "mysql-dataservice-credentials"
)

// retained are the objects that outlive a DataService with a retained volume.
var retained = []string{"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/" + dataClaim, "Secret/" + credentials}

// databaseOnly removes the components that a test of the database does not need. eureka stays, because a DataService must have at least one
// component.
var databaseOnly = fields{"web": nil, "proxy": nil, "uuc": nil, "auth": nil}

// database is the kind of the database and the retention of its volume. Without a kind, the database is removed from the spec.
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

// databases lists successive states of a database before its DataService is deleted. test/chaos tests crashes during some of these changes.
var databases = [][]database{
	{{"StatefulSet", "Retain"}, {"Deployment", "Delete"}},
	{{"StatefulSet", "Delete"}, {"", "Delete"}},
	{{"Deployment", "Retain"}, {"", "Retain"}},
	{{"StatefulSet", "Delete"}, {"ThirdParty", "Delete"}, {"Deployment", "Delete"}},
	{{"Deployment", "Delete"}},
	{{"StatefulSet", "Retain"}, {"StatefulSet", "Delete"}},
	{{"Deployment", "Delete"}, {"Deployment", "Retain"}},
	{{"Deployment", "Delete"}, {"StatefulSet", "Delete"}, {"Deployment", "Delete"}, {"StatefulSet", "Delete"}},
	{{"StatefulSet", "Delete"}, {"DaemonSet", "Delete"}, {"StatefulSet", "Delete"}},
}

// inGate limits make test to the first entries of databases.
const inGate = 4

// The volume and the passwords stay the same through all changes of the database's kind and retention. They are
// deleted with the database or the DataService only if the spec requests the deletion at that time. No operator needs to
// run when a DataService is deleted. The next DataService of that name adopts the remaining objects.
func TestDataIsDeletedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for i, steps := range databases {
		t.Run(strings.Trim(fmt.Sprint(steps), "[]"), func(t *testing.T) {
			if i >= inGate {
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
				e.passes(ds)
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

// left returns the objects in the namespace, without the objects that Kubernetes creates in every namespace.
func (e *env) left() []string {
	return slices.DeleteFunc(harness.IDs(e.All()), func(id string) bool {
		return id == "ConfigMap/kube-root-ca.crt" || strings.HasPrefix(id, "Event/")
	})
}

// workloadOf waits until the database has only the workload of its kind: no workload for ThirdParty.
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
		e.Errorf("the claim was replaced or is being deleted: %s, deleted %v; was %s", now.UID, now.DeletionTimestamp, claim.UID)
	}
	if e.password() != password {
		e.Error("the password has changed")
	}
}

// neverDeleted fails the test if the database's claim, or the Secret with the database's passwords,
// has been deleted or replaced, even if only for a moment.
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

// A server whose volume has no mark of a guard is never replaced by several members, in whatever order the fields
// change. The status names the field and the next step, and running objects do not change. The same applies to a
// DataService that is created over retained data.
func TestOneServerStaysOneServer(t *testing.T) {
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small(databaseOnly))
	e.Eventually("the data is recorded", func() bool { return e.Object("ConfigMap/mysql-dataservice-data") != nil })
	claim, password := e.claim(), e.password()
	one := fields{"mysql": fields{"replica": 1, "replication": nil, "name": nil}}
	for _, c := range []struct {
		change fields
		says   []string
	}{
		{fields{"replica": 3}, []string{"spec.mysql.replica", "has no mark", "continues as one server"}}, // the volume of this server has no mark of a guard
		{fields{"replica": 3, "name": "another"}, []string{"spec.mysql.replica", "database mysql-dataservice", "ConfigMap mysql-dataservice-data"}},
		{fields{"replica": 0, "replication": fields{}}, []string{"spec.mysql.replica", "one server"}},
	} {
		before := versions(e.made()...)
		e.Change(name, fields{"mysql": c.change})
		e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonInvalidSpec, c.says...)
		e.equal("changed by it", e.touched(before), nil)
		e.ChangeReady(name, one)
	}
	e.sameData(claim, password)
	e.remove(name)
	e.Create(small(databaseOnly, fields{"mysql": fields{"replica": 3}}))
	e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonInvalidSpec, "spec.mysql.replica", "one server")
	e.ChangeReady(name, one)
	e.sameData(claim, password)
}

// A mysql of several members cannot become a single server, or a third party with the name of the members' Service: the
// MySQLCluster is kept. A third-party mysql with another name replaces the members when it answers.
func TestMembersStayMembers(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.Create(small(databaseOnly, fields{"mysql": fields{"replica": 3}}))
	child := func() *mysqlv1.MySQLCluster {
		mc := &mysqlv1.MySQLCluster{}
		if api.Get(e.Ctx, client.ObjectKey{Namespace: e.Namespace, Name: "mysql-dataservice"}, mc) != nil {
			return nil
		}
		return mc
	}
	e.Eventually("the MySQLCluster is there", func() bool { return child() != nil })
	e.Eventually("it is waited for", func() bool { return e.componentStatus(name, "mysql").Kind == "Managed" })
	elsewhere := fields{"name": nil, "kind": "ThirdParty", "thirdParty": fields{"url": "mysql://db.example.org:3306", "username": "app", "password": "somewhere-else"}}
	uid := child().UID
	for _, c := range []struct {
		change fields
		says   []string
	}{
		{fields{"replica": 1, "name": "another"}, []string{"spec.mysql.name", "MySQLCluster mysql-dataservice"}},
		{fields{"kind": "DaemonSet"}, []string{"spec.mysql.", "MySQLCluster mysql-dataservice"}},
		{elsewhere, []string{"spec.mysql.name", "MySQLCluster mysql-dataservice"}},
	} {
		e.Change(name, fields{"mysql": c.change})
		e.condition(name, dsv1.ConditionStalled, metav1.ConditionTrue, dsv1.ReasonInvalidSpec, c.says...)
	}
	mark := op.Mark()
	e.passes(name)
	e.equal("written", asText(op.Since(mark, harness.Sent.WritesObject)), nil)
	if is := child(); is == nil || is.UID != uid {
		t.Errorf("the MySQLCluster was replaced: %v", is)
	}
	e.ChangeReady(name, fields{"mysql": fields{"name": "another"}})
	e.Until("the MySQLCluster goes", func() error { return stage.Unless(child() == nil, "it is there") })
	if e.Object("Secret/"+credentials) == nil {
		t.Error("the Secret with the passwords was deleted")
	}
}
