// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// A component that is taken out of the spec is taken out of the cluster, exactly; put in
// again it is there again.
func TestRemovedComponentGoes(t *testing.T) {
	e := parallel(t)
	op := e.startOperator()
	name := e.createReady(sample())
	all := ids(e.made())
	for _, c := range []struct {
		component string
		goes      []string
		changes   []string // because they refer to it
	}{
		{"auth", []string{"ConfigMap/auth", "Service/auth", "Deployment/auth"}, nil},
		{"trd-adapter", []string{"ConfigMap/trd-adapter", "ConfigMap/trd-adapter-py", "Service/trd-adapter", "Deployment/trd-adapter"}, nil},
		{"web", []string{"ConfigMap/web", "ConfigMap/web-template", "Service/web", "Deployment/web"}, nil},
		{"proxy", []string{"ConfigMap/proxy", "Service/proxy", "Deployment/proxy"}, []string{"ConfigMap/web-template", "Deployment/web"}},
	} {
		was := e.dataService(name).DeepCopy()
		before := versions(e.made())
		mark := op.mark()
		e.changeReady(name, fields{c.component: nil})
		e.until("the objects go", func() error { return saying(difference(ids(e.made()), without(all, c.goes))) })
		e.equal(c.component+" removed: objects written", objects(op.since(mark, request.WritesObject)), append(c.changes[:len(c.changes):len(c.changes)], c.goes...))
		after := versions(e.made())
		for _, id := range without(all, append(c.goes, c.changes...)) {
			if before[id] != after[id] {
				t.Errorf("%s removed: %s has changed", c.component, id)
			}
		}
		for _, s := range e.dataService(name).Status.Components {
			if s.Name == c.component {
				t.Errorf("%s removed, but still in the status", c.component)
			}
		}
		e.until("its pods go", func() error { return unless(len(e.pods(c.component)) == 0, "there are some") })
		again := get(e, e.dataService(name).DeepCopy(), name)
		again.Spec = was.Spec
		e.must(api.Update(e.ctx, again))
		e.ready(name)
		e.equal(c.component+" is back: objects", ids(e.made()), all)
	}
}

// A new name replaces a component's objects.
func TestRenamedComponent(t *testing.T) {
	e := parallel(t)
	e.startOperator()
	name := e.createReady(small())
	all := ids(e.made())
	e.changeReady(name, fields{"auth": fields{"name": "login"}})
	renamed := append(without(all, []string{"ConfigMap/auth", "Service/auth", "Deployment/auth"}),
		"ConfigMap/login", "Service/login", "Deployment/login")
	e.until("objects after the new name", func() error { return saying(difference(ids(e.made()), renamed)) })
	e.until("the old pods go", func() error { return unless(len(e.pods("auth")) == 1, "they are still there") })

	// Others follow the new name of a middleware.
	e.changeReady(name, fields{"eureka": fields{"name": "registry"}})
	if err := mentions(lookup[*corev1.ConfigMap](e.journal, "login").Data["application.properties"], "http://registry."+e.namespace+".svc:8761"); err != nil {
		t.Error(err)
	}
	e.until("the old registry goes", func() error {
		return unless(lookup[*appsv1.Deployment](e.journal, "eureka") == nil && lookup[*corev1.Service](e.journal, "eureka") == nil, "it is still there")
	})

	e.changeReady(name, fields{"auth": fields{"name": nil}, "eureka": fields{"name": nil}})
	e.until("objects after the old names", func() error { return saying(difference(ids(e.made()), all)) })
}

// A database that moves out and in again finds its volume and its password.
func TestMySQLMovesOutAndBack(t *testing.T) {
	e := parallel(t)
	e.startOperator()
	name := e.createReady(small())
	claim := e.claim()
	password := e.password()
	e.changeReady(name, fields{"mysql": fields{"kind": "ThirdParty", "thirdParty": fields{
		"url": "mysql://db.example.org:3306", "username": "app", "password": "somewhere-else",
	}}})
	e.until("the StatefulSet goes", func() error {
		return unless(lookup[*appsv1.StatefulSet](e.journal, "mysql-dataservice") == nil, "it is still there")
	})
	if s := lookup[*corev1.Service](e.journal, "mysql-dataservice"); s == nil || s.Spec.Type != corev1.ServiceTypeExternalName || s.Spec.ExternalName != "db.example.org" {
		t.Errorf("mysql-dataservice does not lead to the other database: %v", s)
	}
	if lookup[*appsv1.Deployment](e.journal, "mysql-dataservice-probe") == nil {
		t.Error("nothing watches over the other database")
	}
	if uses := secretOf(lookup[*appsv1.Deployment](e.journal, "auth"), "MYSQL_PASSWORD"); uses == "mysql-dataservice-credentials" {
		t.Error("auth still logs in with the old password")
	}
	e.changeReady(name, fields{"mysql": fields{"kind": 1, "thirdParty": nil}})
	e.until("the probe goes", func() error {
		return unless(lookup[*appsv1.Deployment](e.journal, "mysql-dataservice-probe") == nil &&
			lookup[*corev1.Secret](e.journal, "mysql-dataservice-third-party") == nil, "it is still there")
	})
	if uses := secretOf(lookup[*appsv1.Deployment](e.journal, "auth"), "MYSQL_PASSWORD"); uses != "mysql-dataservice-credentials" {
		t.Errorf("auth logs in with Secret %s", uses)
	}
	e.sameData(claim, password)
}

// A database that changes from StatefulSet to Deployment and back keeps its claim.
func TestMySQLChangesKind(t *testing.T) {
	e := parallel(t)
	e.startOperator()
	name := e.createReady(small())
	claim, password := e.claim(), e.password()
	e.changeReady(name, fields{"mysql": fields{"kind": "Deployment"}})
	e.until("the StatefulSet goes", func() error {
		return unless(lookup[*appsv1.StatefulSet](e.journal, "mysql-dataservice") == nil, "it is still there")
	})
	uses := ""
	for _, v := range pod(lookup[*appsv1.Deployment](e.journal, "mysql-dataservice")).Volumes {
		if v.PersistentVolumeClaim != nil {
			uses = v.PersistentVolumeClaim.ClaimName
		}
	}
	if uses != claim.Name {
		t.Errorf("the Deployment uses the claim %q", uses)
	}
	e.sameData(claim, password)
	e.changeReady(name, fields{"mysql": fields{"kind": "StatefulSet"}})
	e.until("the Deployment goes", func() error {
		return unless(lookup[*appsv1.Deployment](e.journal, "mysql-dataservice") == nil, "it is still there")
	})
	e.until("one pod", func() error { return unless(len(e.pods("mysql")) == 1, "there are others") })
	e.sameData(claim, password)
}

// A middleware may change its kind; what it was before goes.
func TestEurekaChangesKind(t *testing.T) {
	e := parallel(t)
	e.startOperator()
	name := e.createReady(small())
	for _, kind := range []any{"StatefulSet", 2, "Deployment"} {
		e.changeReady(name, fields{"eureka": fields{"kind": kind}})
		want := map[any]string{"StatefulSet": "StatefulSet", 2: "DaemonSet", "Deployment": "Deployment"}[kind]
		e.until("the old kind goes", func() error {
			var workloads []string
			for _, object := range e.made() {
				if _, service := object.(*corev1.Service); object.GetName() == "eureka" && !service {
					workloads = append(workloads, kindOf(object))
				}
			}
			return saying(difference(workloads, []string{want}))
		})
		e.until("pods of the new kind alone", func() error {
			for _, p := range e.pods("eureka") {
				owner := p.OwnerReferences[0].Kind
				if owner == "ReplicaSet" {
					owner = "Deployment"
				}
				if owner != want {
					return unless(false, "pods of a "+owner)
				}
			}
			return unless(len(e.pods("eureka")) > 0, "no pod")
		})
	}
}

// claim returns the claim of the database.
func (e *env) claim() *corev1.PersistentVolumeClaim {
	e.Helper()
	claim := lookup[*corev1.PersistentVolumeClaim](e.journal, "data-mysql-dataservice-0")
	if claim == nil {
		e.Fatal("the database has no claim")
	}
	return claim
}

// password returns the passwords of the database.
func (e *env) password() string {
	e.Helper()
	secret := lookup[*corev1.Secret](e.journal, "mysql-dataservice-credentials")
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

// secretOf returns the Secret that a variable comes from.
func secretOf(d *appsv1.Deployment, name string) string {
	if v := variable(d, name); v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
		return v.ValueFrom.SecretKeyRef.Name
	}
	return ""
}

// without returns a list without some of its entries.
func without(list, gone []string) []string {
	out := map[string]bool{}
	for _, s := range gone {
		out[s] = true
	}
	var kept []string
	for _, s := range list {
		if !out[s] {
			kept = append(kept, s)
		}
	}
	return kept
}
