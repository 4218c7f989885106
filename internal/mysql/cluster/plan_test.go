// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/mysql/replication"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/test/databasetest"
)

var today = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPlanner(t *testing.T, now *time.Time) *planner {
	t.Helper()
	renderer, err := render.New("v1.36.0")
	assert.NilError(t, err)
	return newPlanner(renderer, Images{Agent: "example/operator:v1"}, func() time.Time { return *now })
}

func read(t *testing.T, name string) *mysqlv1.MySQLCluster {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	assert.NilError(t, err)
	mc := &mysqlv1.MySQLCluster{}
	assert.NilError(t, yaml.UnmarshalStrict(data, mc))
	return mc
}

type there = databasetest.There

func withRecord(t *testing.T, mc *mysqlv1.MySQLCluster, record replication.Record) there {
	t.Helper()
	return databasetest.WithRecord(t, there{}, records, reconcile.OwnerOf(&Kind{}, mc), record)
}

// planOf returns the plan of a database whose Secrets exist.
func planOf(t *testing.T, mc *mysqlv1.MySQLCluster, live there) *reconcile.Plan {
	t.Helper()
	p := testPlanner(t, &today)
	_, err := p.plan(mc, reconcile.OwnerOf(&Kind{}, mc), there{}.Inputs())
	assert.NilError(t, err)
	plan, err := p.plan(mc, reconcile.OwnerOf(&Kind{}, mc), live.Inputs())
	assert.NilError(t, err)
	return plan
}

// testdata/*.golden contains the planned objects of each resource (go test . -update).
func TestManifests(t *testing.T) {
	t.Parallel()
	databasetest.Manifests(t, 3, func(t *testing.T, name string) []*unstructured.Unstructured {
		t.Helper()
		mc := read(t, name)
		return planOf(t, mc, withRecord(t, mc, recorded)).Parts[0].Objects
	})
}

// Pods restore a backup until the record shows that the database was formed. Pods that start later have no access to
// the backup store.
func TestBirth(t *testing.T) {
	t.Parallel()
	mc := read(t, "backup")
	restores := func(live there) (init, agent, store bool) {
		text, err := yaml.Marshal(planOf(t, mc, live).Parts[0].Objects)
		assert.NilError(t, err)
		return strings.Contains(string(text), "name: d3os-restore\n"), strings.Contains(string(text), "- --restore\n"), strings.Contains(string(text), "claimName: backups\n")
	}
	if init, agent, store := restores(there{}); !init || !agent || !store {
		t.Error("a new database does not begin with its backup:", init, agent, store)
	}
	if init, agent, store := restores(withRecord(t, mc, recorded)); init || agent || store {
		t.Error("a database that was formed is restored:", init, agent, store)
	}
}

// The record determines which pods exist, and which pod the Service selects. Without a record, no existing pod is removed.
func TestThePlanFollowsTheRecord(t *testing.T) {
	t.Parallel()
	third := recorded
	third.Primary, third.Voters = identity(2), []replication.Identity{identity(0)}
	mc := read(t, "minimal")
	for name, c := range map[string]struct {
		replicas int32
		live     there
		pods     int64
		primary  string
	}{
		"new":                              {3, there{}, 3, "db-0"},
		"fewer are wanted, two are voters": {1, withRecord(t, mc, recorded), 3, "db-0"},
		"the third is the primary":         {1, withRecord(t, mc, third), 3, "db-2"},
		"more are wanted":                  {5, withRecord(t, mc, recorded), 5, "db-0"},
		"parked":                           {0, withRecord(t, mc, recorded), 0, "db-0"},
		"the record is lost, and pods run": {1, there{}.Set("db", 3, container, "x"), 3, "db-0"},
	} {
		mc := read(t, "minimal")
		mc.Spec.Replicas = ptr.To(c.replicas)
		for _, o := range planOf(t, mc, c.live).Parts[0].Objects {
			if o.GetKind() == object.StatefulSetKind.Kind {
				assert.Equal(t, int64(database.Replicas(o)), c.pods, name)
			}
			if o.GetKind() == "Service" && o.GetName() == "db" {
				assert.Equal(t, selectedPod(o), c.primary, name)
			}
			if o.GetName() == records.Name("db") {
				assert.Assert(t, object.OutlivesOwner(o), name)
			}
		}
	}
}

// A new version of the operator has another image of the agent. The new image alone restarts no member.
func TestAnotherAgentRestartsNothing(t *testing.T) {
	t.Parallel()
	mc := read(t, "minimal")
	p := testPlanner(t, &today)
	set := func(live there) *unstructured.Unstructured {
		plan, err := p.plan(mc, reconcile.OwnerOf(&Kind{}, mc), live.Inputs())
		assert.NilError(t, err)
		for _, o := range plan.Parts[0].Objects {
			if o.GetKind() == object.StatefulSetKind.Kind {
				return o
			}
		}
		t.Fatal("the plan has no StatefulSet")
		return nil
	}
	live := set(there{})
	p.images.Agent = "example/operator:v2"
	assert.Equal(t, agentPods.Pods(set(there{"StatefulSet/db": live})).Image, "example/operator:v1")
	mc.Generation, mc.Spec.TimeZone = 2, "Europe/Berlin"
	assert.Equal(t, agentPods.Pods(set(there{"StatefulSet/db": live})).Image, "example/operator:v2")
}

// secrets plans the Secrets of a database, and returns them by suffix.
func secrets(t *testing.T, p *planner, mc *mysqlv1.MySQLCluster, live there, isFormed bool) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	if isFormed {
		for id, o := range withRecord(t, mc, recorded) {
			live[id] = o
		}
	}
	plan, err := p.plan(mc, reconcile.OwnerOf(&Kind{}, mc), live.Inputs())
	if err != nil {
		return nil, err
	}
	found := map[string]*unstructured.Unstructured{}
	for _, o := range plan.Secrets {
		found[o.GetName()] = o
	}
	return found, nil
}

// Generated Secrets do not change. If a Secret is deleted, an operator that has the Secret's content in its cache
// restores it. Without that content, the operator creates no new Secret for a database with data, except the Secret
// with the members' certificate.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	mc, now := read(t, "minimal"), today
	p := testPlanner(t, &now)
	first, err := secrets(t, p, mc, there{}, false)
	assert.NilError(t, err)
	assert.Equal(t, len(first), 4)
	live := there{}
	for name, o := range first {
		live["Secret/"+name] = o
		assert.Equal(t, object.OutlivesOwner(o), name != "db-member-tls", name)
	}
	live.Set("db", 3, container, "x")
	for _, name := range []string{"db-credentials", "db-members", "db-ca", "db-member-tls"} {
		gone := there{}
		for id, o := range live {
			if id != "Secret/"+name {
				gone[id] = o
			}
		}
		again, err := secrets(t, p, mc, gone, true)
		assert.NilError(t, err, name)
		assert.DeepEqual(t, again[name].Object["data"], first[name].Object["data"])

		_, err = secrets(t, testPlanner(t, &now), mc, gone, true)
		lost := &database.LostError{}
		if failed := (&reconcile.SecretError{}); name == "db-member-tls" {
			assert.NilError(t, err) // the authority signs another certificate
		} else if !errors.As(err, &failed) || !errors.As(err, &lost) || lost.Secret != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := secrets(t, testPlanner(t, &now), mc, live, true)
	assert.NilError(t, err)
	for name, o := range other {
		assert.DeepEqual(t, o.Object["data"], first[name].Object["data"])
	}
	// A new operator finds a Secret that has lost only the operator's label. If a Secret has lost all labels, the plan
	// fails with an error that names the Secret.
	for _, name := range []string{"db-credentials", "db-members", "db-ca"} {
		plan, err := testPlanner(t, &now).plan(mc, reconcile.OwnerOf(&Kind{}, mc), live.Unlabelled(name))
		assert.NilError(t, err, name)
		for _, o := range plan.Secrets {
			assert.DeepEqual(t, o.Object["data"], first[o.GetName()].Object["data"])
		}
		bare := maps.Clone(live)
		bare["Secret/"+name] = live["Secret/"+name].DeepCopy()
		bare["Secret/"+name].SetLabels(nil)
		_, err = testPlanner(t, &now).plan(mc, reconcile.OwnerOf(&Kind{}, mc), bare.Unlabelled(name))
		assert.ErrorContains(t, err, "Secret "+name+" exists, but its labels do not name MySQLCluster db")
	}
	now = now.Add(database.LeafLife) // the certificate is due to be renewed, but the authority is not
	renewed, err := secrets(t, p, mc, live, true)
	assert.NilError(t, err)
	assert.DeepEqual(t, renewed["db-ca"].Object["data"], first["db-ca"].Object["data"])
	assert.Assert(t, renewed["db-member-tls"].Object["data"].(map[string]any)[keyCert] != first["db-member-tls"].Object["data"].(map[string]any)[keyCert])

	// While members run, the operator refuses a Secret with another authority.
	foreign, err := secrets(t, testPlanner(t, &today), mc, there{}, false)
	assert.NilError(t, err)
	live["Secret/db-ca"] = foreign["db-ca"]
	_, err = secrets(t, testPlanner(t, &today), mc, live, true)
	assert.ErrorContains(t, err, "restore the former Secret")

	mc.Spec.CredentialsSecret, mc.Generation = "account", 2
	own, err := secrets(t, p, mc, there{}, false)
	assert.NilError(t, err)
	assert.Assert(t, own["db-credentials"] == nil)
}

// The operator adopts a live Secret that its cache did not show at first, and drops the values that it has generated
// instead.
func TestSecretsAreAdopted(t *testing.T) {
	t.Parallel()
	mc := read(t, "minimal")
	theirs, err := secrets(t, testPlanner(t, &today), mc, there{}, false)
	assert.NilError(t, err)
	p := testPlanner(t, &today)
	_, err = secrets(t, p, mc, there{}, false)
	assert.NilError(t, err)
	for _, name := range []string{"db-credentials", "db-members", "db-ca"} {
		assert.Assert(t, p.keeper.adopt(mc, theirs[name]), name)
		assert.Assert(t, !p.keeper.adopt(mc, theirs[name]), name)
	}
	again, err := secrets(t, p, mc, there{}, false)
	assert.NilError(t, err)
	assert.DeepEqual(t, again["db-members"].Object["data"], theirs["db-members"].Object["data"])
}

// The operator's certificate is valid only for the agents of this database.
func TestReach(t *testing.T) {
	t.Parallel()
	mc := read(t, "minimal")
	p := testPlanner(t, &today)
	assert.Assert(t, p.keeper.reach(mc).TLS == nil)
	_, err := secrets(t, p, mc, there{}, false)
	assert.NilError(t, err)
	r := p.keeper.reach(mc)
	assert.Equal(t, r.Host(2), "db-2.db-headless.data.svc")
	assert.Equal(t, len(r.TLS.Certificates), 1)
	assert.DeepEqual(t, p.keeper.reach(mc).TLS.Certificates[0].Certificate, r.TLS.Certificates[0].Certificate)
}

// Invalid schedules of backups and checks, and an invalid time zone, are refused with their path.
func TestSpecsAreChecked(t *testing.T) {
	t.Parallel()
	for spec, message := range map[string]string{
		"backup: {schedule: '0 24 * * *'}": "spec.backup.schedule: the hour '24' is refused", "backup: {verify: {schedule: '0 3 * * 7'}}": "spec.backup.verify.schedule: the day of the week '7' is refused",
		"backup: {timeZone: Europe/Nowhere}": "spec.backup.timeZone: 'Europe/Nowhere' is not known",
		`config: {init_connect: "a\nb"}`:     "spec.config[init_connect]: must be one line",
	} {
		mc := read(t, "backup")
		assert.NilError(t, yaml.Unmarshal([]byte(spec), &mc.Spec))
		_, err := values(mc, object.Owner{}, planned{}, Images{})
		assert.ErrorContains(t, err, message)
	}
}

// While the database is parked, no backup or check is scheduled, because it would fail. No old backup is removed.
func TestNoBackupWhileParked(t *testing.T) {
	t.Parallel()
	mc := read(t, "backup")
	mc.Spec.Backup.Schedule = "30 2 * * *"
	for replicas, want := range map[int32]bool{3: false, 0: true} {
		mc.Spec.Replicas = &replicas
		for _, of := range []string{"-backup", "-prune", "-verify"} {
			suspended, _, _ := unstructured.NestedBool(databasetest.Find(planOf(t, mc, withRecord(t, mc, recorded)), object.CronJobKind.Kind, mc.Name+of).Object, "spec", "suspend")
			assert.Equal(t, suspended, want, "%s with %d pods", of, replicas)
		}
	}
}
