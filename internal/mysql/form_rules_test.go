// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// A database starts only in the form that its data has.
func TestForms(t *testing.T) {
	t.Parallel()
	server, replaced := Record{Database: "db", HasData: true}, Record{Database: "old", HasData: true, ReplacedBy: "db"}
	for name, c := range map[string]struct {
		form  Form
		field string   // "" if the form may run
		says  []string // texts in the refusal
		stage Stage
	}{
		"one server":                         {form: Form{Claim: ClaimOfServer}},
		"one server, new":                    {form: Form{}},
		"several, new":                       {form: Form{IsReplicated: true}},
		"several, as before":                 {form: Form{IsReplicated: true, Claim: ClaimOfCluster, Clusters: []string{"db"}}},
		"several, kept data":                 {form: Form{IsReplicated: true, Claim: ClaimOfCluster}},
		"several, a replaced database":       {form: Form{IsReplicated: true, Records: []Record{replaced}}},
		"elsewhere":                          {form: Form{IsElsewhere: true}},
		"elsewhere, kept data of several":    {form: Form{IsElsewhere: true, Claim: ClaimOfCluster}},
		"elsewhere, several of another name": {form: Form{IsElsewhere: true, Clusters: []string{"other"}}},
		"elsewhere, several of that name":    {Form{IsElsewhere: true, Clusters: []string{"db"}, Claim: ClaimOfCluster}, "name", []string{"MySQLCluster db"}, ""},
		"several, no record yet":             {Form{IsReplicated: true, Claim: ClaimOfServer, IsTaken: true}, "replica", []string{"PersistentVolumeClaim data-db-0"}, ""},
		"several, another name":              {Form{IsReplicated: true, Records: []Record{{Database: "other", HasData: true}}}, "replica", []string{"database other"}, ""},
		"several, another one has data, too": {Form{IsReplicated: true, Records: []Record{server, {Database: "other", HasData: true}}, Claim: ClaimOfServer}, "replica", []string{"database"}, ""},
		"several, in place of another form":  {Form{IsReplicated: true, IsTaken: true}, "name", []string{"Service db"}, ""},
		"several become another server":      {Form{Clusters: []string{"other"}}, "name", []string{"MySQLCluster other"}, ""},
		"one server becomes several":         {form: Form{IsReplicated: true, Records: []Record{server}, Claim: ClaimOfServer, IsTaken: true}, stage: StageCheck},
		"its claim was handed over":          {form: Form{IsReplicated: true, Records: []Record{server}, Claim: ClaimOfCluster, IsTaken: true, Left: []string{"Service db"}}, stage: StageRemove},
		"its objects are gone":               {form: Form{IsReplicated: true, Records: []Record{server}, Claim: ClaimOfCluster}},
		"its claim is gone":                  {Form{IsReplicated: true, Records: []Record{server}}, "replica", []string{"database db"}, ""},
		"several, imported":                  {form: Form{IsReplicated: true, IsImported: true}, stage: StageImport},
		"several, being imported":            {form: Form{IsReplicated: true, IsImported: true, Claim: ClaimOfServer, IsTaken: true}, stage: StageImport},
		"several, the copy is there":         {form: Form{IsReplicated: true, IsImported: true, Records: []Record{server}, Claim: ClaimOfServer, IsTaken: true}, stage: StageCheck},
		"several, the copy is a member's":    {form: Form{IsReplicated: true, IsImported: true, Records: []Record{server}, Claim: ClaimOfCluster}},
		"several, the copy's claim is gone":  {Form{IsReplicated: true, IsImported: true, Records: []Record{server}}, "replica", []string{"database db"}, ""},
		"several exist, import declared":     {form: Form{IsReplicated: true, IsImported: true, Clusters: []string{"db"}}},
		"several become one":                 {form: Form{Claim: ClaimOfCluster, Clusters: []string{"db"}}, stage: StageKeep},
		"several become one, and no claim":   {form: Form{Clusters: []string{"db"}}, stage: StageKeep},
		"one again, its objects still exist": {form: Form{Records: []Record{server}, Claim: ClaimOfCluster, Left: []string{"Service db"}}, stage: StageRemove},
		"one, and another one is in use":     {Form{Records: []Record{{Database: "other", HasData: true}}, Claim: ClaimOfCluster}, "replica", []string{"database other"}, StageKeep},
		"one, kept data of several":          {form: Form{Claim: ClaimOfCluster}, stage: StageKeep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.form.Name = "db"
			field, why := c.form.Refusal()
			assert.Equal(t, field, c.field, why)
			assert.Equal(t, why == "", c.field == "")
			assert.Equal(t, c.form.Stage(), c.stage)
			for _, word := range c.says {
				assert.Assert(t, strings.Contains(why, word), why)
			}
		})
	}
}

// Several members restore the declared backup only if their MySQLCluster does not exist yet or already restores a backup.
// If a single server has data, the members take over its data instead.
func TestMembersAreRestoredOnce(t *testing.T) {
	t.Parallel()
	cluster := func(spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(clusterKind)
		o.SetName("db")
		return o
	}
	backup := map[string]any{"restoreFrom": map[string]any{"backup": "latest"}}
	for name, c := range map[string]struct {
		form     Form
		restores bool
	}{
		"new":                  {Form{}, true},
		"restored":             {Form{Cluster: cluster(backup)}, true},
		"exists, not restored": {Form{Cluster: cluster(map[string]any{})}, false},
		"data of one server":   {Form{Mark: "m"}, false},
		"both, and restoring":  {Form{Mark: "m", Cluster: cluster(backup)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planned := cluster(map[string]any{"restoreFrom": map[string]any{"backup": "latest"}})
			part := &reconcile.Part{Objects: []*unstructured.Unstructured{planned}}
			assert.NilError(t, c.form.Adopt(part, object.Owner{Name: "platform", UID: "1"}))
			_, restores, _ := unstructured.NestedMap(part.Objects[0].Object, "spec", "restoreFrom")
			assert.Equal(t, restores, c.restores)
			assert.Equal(t, part.Objects[0].GetAnnotations()[object.AnnotationAdopt], c.form.Mark)
		})
	}
}
