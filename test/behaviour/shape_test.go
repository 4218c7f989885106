// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness"
)

// A component that is taken out of the spec is taken out of the cluster, exactly; put in
// again it is there again.
func TestRemovedComponentGoes(t *testing.T) {
	e := parallel(t)
	op := e.Start()
	name := e.CreateReady(sample())
	all := harness.IDs(e.made())
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
		was := e.DataService(name).DeepCopy()
		before := versions(e.made())
		mark := op.Mark()
		e.ChangeReady(name, fields{c.component: nil})
		e.Until("the objects go", func() error { return saying(harness.Difference(harness.IDs(e.made()), without(all, c.goes))) })
		e.equal(c.component+" removed: objects written", harness.Objects(op.Since(mark, harness.Sent.WritesObject)), append(c.changes[:len(c.changes):len(c.changes)], c.goes...))
		after := versions(e.made())
		for _, id := range without(all, append(c.goes, c.changes...)) {
			if before[id] != after[id] {
				t.Errorf("%s removed: %s has changed", c.component, id)
			}
		}
		for _, s := range e.DataService(name).Status.Components {
			if s.Name == c.component {
				t.Errorf("%s removed, but still in the status", c.component)
			}
		}
		e.Until("its pods go", func() error { return unless(len(e.pods(c.component)) == 0, "there are some") })
		again := get(e, e.DataService(name).DeepCopy(), name)
		again.Spec = was.Spec
		e.Must(api.Update(e.Ctx, again))
		e.Ready(name)
		e.equal(c.component+" is back: objects", harness.IDs(e.made()), all)
	}
}

// A new name replaces a component's objects.
func TestRenamedComponent(t *testing.T) {
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small())
	all := harness.IDs(e.made())
	e.ChangeReady(name, fields{"auth": fields{"name": "login"}})
	renamed := append(without(all, []string{"ConfigMap/auth", "Service/auth", "Deployment/auth"}),
		"ConfigMap/login", "Service/login", "Deployment/login")
	e.Until("objects after the new name", func() error { return saying(harness.Difference(harness.IDs(e.made()), renamed)) })
	e.Until("the old pods go", func() error { return unless(len(e.pods("auth")) == 1, "they are still there") })

	// Others follow the new name of a middleware.
	e.ChangeReady(name, fields{"eureka": fields{"name": "registry"}})
	if err := harness.Mentions(harness.Lookup[*corev1.ConfigMap](e.Journal, "login").Data["application.properties"], "http://registry."+e.Namespace+".svc:8761"); err != nil {
		t.Error(err)
	}
	e.Until("the old registry goes", func() error {
		return unless(harness.Lookup[*appsv1.Deployment](e.Journal, "eureka") == nil && harness.Lookup[*corev1.Service](e.Journal, "eureka") == nil, "it is still there")
	})

	e.ChangeReady(name, fields{"auth": fields{"name": nil}, "eureka": fields{"name": nil}})
	e.Until("objects after the old names", func() error { return saying(harness.Difference(harness.IDs(e.made()), all)) })
}

// A database that moves out and in again finds its volume and its password.
func TestMySQLMovesOutAndBack(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small())
	claim := e.claim()
	password := e.password()
	e.ChangeReady(name, fields{"mysql": fields{"kind": "ThirdParty", "thirdParty": fields{
		"url": "mysql://db.example.org:3306", "username": "app", "password": "somewhere-else",
	}}})
	e.Until("the StatefulSet goes", func() error {
		return unless(harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice") == nil, "it is still there")
	})
	if s := harness.Lookup[*corev1.Service](e.Journal, "mysql-dataservice"); s == nil || s.Spec.Type != corev1.ServiceTypeExternalName || s.Spec.ExternalName != "db.example.org" {
		t.Errorf("mysql-dataservice does not lead to the other database: %v", s)
	}
	if harness.Lookup[*appsv1.Deployment](e.Journal, "mysql-dataservice-probe") == nil {
		t.Error("nothing watches over the other database")
	}
	if uses := secretOf(harness.Lookup[*appsv1.Deployment](e.Journal, "auth"), "MYSQL_PASSWORD"); uses == "mysql-dataservice-credentials" {
		t.Error("auth still logs in with the old password")
	}
	e.ChangeReady(name, fields{"mysql": fields{"kind": 1, "thirdParty": nil}})
	e.Until("the probe goes", func() error {
		return unless(harness.Lookup[*appsv1.Deployment](e.Journal, "mysql-dataservice-probe") == nil &&
			harness.Lookup[*corev1.Secret](e.Journal, "mysql-dataservice-third-party") == nil, "it is still there")
	})
	if uses := secretOf(harness.Lookup[*appsv1.Deployment](e.Journal, "auth"), "MYSQL_PASSWORD"); uses != "mysql-dataservice-credentials" {
		t.Errorf("auth logs in with Secret %s", uses)
	}
	e.sameData(claim, password)
}

// A database that changes from StatefulSet to Deployment and back keeps its claim.
func TestMySQLChangesKind(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small())
	claim, password := e.claim(), e.password()
	e.ChangeReady(name, fields{"mysql": fields{"kind": "Deployment"}})
	e.Until("the StatefulSet goes", func() error {
		return unless(harness.Lookup[*appsv1.StatefulSet](e.Journal, "mysql-dataservice") == nil, "it is still there")
	})
	uses := ""
	for _, v := range pod(harness.Lookup[*appsv1.Deployment](e.Journal, "mysql-dataservice")).Volumes {
		if v.PersistentVolumeClaim != nil {
			uses = v.PersistentVolumeClaim.ClaimName
		}
	}
	if uses != claim.Name {
		t.Errorf("the Deployment uses the claim %q", uses)
	}
	e.sameData(claim, password)
	e.ChangeReady(name, fields{"mysql": fields{"kind": "StatefulSet"}})
	e.Until("the Deployment goes", func() error {
		return unless(harness.Lookup[*appsv1.Deployment](e.Journal, "mysql-dataservice") == nil, "it is still there")
	})
	e.Until("one pod", func() error { return unless(len(e.pods("mysql")) == 1, "there are others") })
	e.sameData(claim, password)
}

// A middleware may change its kind; what it was before goes.
func TestEurekaChangesKind(t *testing.T) {
	harness.Long(t)
	e := parallel(t)
	e.Start()
	name := e.CreateReady(small())
	for _, kind := range []any{"StatefulSet", 2, "Deployment"} {
		e.ChangeReady(name, fields{"eureka": fields{"kind": kind}})
		want := map[any]string{"StatefulSet": "StatefulSet", 2: "DaemonSet", "Deployment": "Deployment"}[kind]
		e.Until("the old kind goes", func() error {
			var workloads []string
			for _, object := range e.made() {
				if _, service := object.(*corev1.Service); object.GetName() == "eureka" && !service {
					workloads = append(workloads, harness.KindOf(object))
				}
			}
			return saying(harness.Difference(workloads, []string{want}))
		})
		e.Until("pods of the new kind alone", func() error {
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
	claim := harness.Lookup[*corev1.PersistentVolumeClaim](e.Journal, "data-mysql-dataservice-0")
	if claim == nil {
		e.Fatal("the database has no claim")
	}
	return claim
}

// password returns the passwords of the database.
func (e *env) password() string {
	e.Helper()
	secret := harness.Lookup[*corev1.Secret](e.Journal, "mysql-dataservice-credentials")
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
