// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

const bundle = "../../bundle"

// The bundle's configuration runs every test of this command and no other, one after the other.
func TestConfiguration(t *testing.T) {
	var config v1alpha3.Configuration
	read(t, filepath.Join(bundle, "tests/scorecard/config.yaml"), &config)
	called := map[string]bool{}
	for _, stage := range config.Stages {
		for _, test := range stage.Tests {
			if test.Labels["suite"] != "custom" {
				continue
			}
			if stage.Parallel {
				t.Errorf("%v runs in parallel with others that use the same node ports", test.Entrypoint)
			}
			if len(test.Entrypoint) != 2 || test.Entrypoint[0] != "/scorecard" || tests[test.Entrypoint[1]] == nil {
				t.Errorf("no such test: %v", test.Entrypoint)
				continue
			}
			if test.Labels["test"] != test.Entrypoint[1] {
				t.Errorf("%v has the label %q", test.Entrypoint, test.Labels["test"])
			}
			called[test.Entrypoint[1]] = true
		}
	}
	for name := range tests {
		if !called[name] {
			t.Errorf("scorecard's configuration lacks the test %q", name)
		}
	}
}

// An example that needs another operator is skipped on a cluster without that operator, and tested if the CRD exists.
func TestUnserved(t *testing.T) {
	mongo := schema.GroupVersion{Group: "mongodbcommunity.mongodb.com", Version: "v1"}
	says := "the API server does not serve MongoDBCommunity of " + mongo.String() + ": install MongoDB's operator for Kubernetes"
	ds := &dsv1.DataService{Status: dsv1.DataServiceStatus{Components: []dsv1.ComponentStatus{{Name: "auth", Message: "waits"}, {Name: "mongodb", Message: says}}}}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{mongo})
	one := &trial{Client: fake.NewClientBuilder().WithRESTMapper(mapper).Build()}
	if is := one.unserved(ds); is != says {
		t.Errorf("the kind is not served, and the message is %q", is)
	}
	mapper.Add(mongo.WithKind("MongoDBCommunity"), apimeta.RESTScopeNamespace)
	if is := one.unserved(ds); is != "" {
		t.Errorf("the kind is served, and the message is %q", is)
	}
}

func TestRetained(t *testing.T) {
	for spec, want := range map[string][]string{
		`{}`:                                      nil,
		`{mysql: {}}`:                             {"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials"},
		`{mysql: {name: db, kind: 1}}`:            {"ConfigMap/db-data", "PersistentVolumeClaim/data-db-0", "Secret/db-credentials"},
		`{mysql: {credentialsSecret: mine}}`:      {"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0"},
		`{mysql: {backup: {}}}`:                   {"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials", "Secret/mysql-dataservice-users"},
		`{mysql: {users: [{name: reader}]}}`:      {"ConfigMap/mysql-dataservice-data", "PersistentVolumeClaim/data-mysql-dataservice-0", "Secret/mysql-dataservice-credentials", "Secret/mysql-dataservice-users"},
		`{mysql: {storage: {retention: Delete}}}`: nil,
		`{mysql: {kind: 3}}`:                      nil,
		`{mysql: {kind: ThirdParty}}`:             nil,
		`{mongodb: {}}`:                           {"Secret/mongodb-credentials"},
		`{mongodb: {name: m, kind: Managed}}`:     {"Secret/m-credentials"},
		`{mongodb: {credentialsSecret: mine}}`:    nil,
		`{mongodb: {kind: ThirdParty}}`:           nil,
	} {
		var s dsv1.DataServiceSpec
		if err := yaml.Unmarshal([]byte(spec), &s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, retained(&s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}

// A failure contains the text of the status: the components that are not ready, and the next step.
func TestUnready(t *testing.T) {
	ds := &dsv1.DataService{}
	ds.Name, ds.Generation = "platform", 2
	ds.Status = dsv1.DataServiceStatus{
		ObservedGeneration: 2, Phase: dsv1.PhaseDegraded, Ready: "1/2", Message: "auth: pod auth-1: ImagePullBackOff",
		Components: []dsv1.ComponentStatus{
			{Name: "mysql", Phase: dsv1.PhaseRunning, Ready: 1, Desired: 1},
			{Name: "auth", Kind: "Deployment", Phase: dsv1.PhaseDegraded, Desired: 2, Message: "pod auth-1: ImagePullBackOff"},
		},
	}
	apimeta.SetStatusCondition(&ds.Status.Conditions, metav1.Condition{
		Type: dsv1.ConditionReady, Status: metav1.ConditionFalse, Reason: dsv1.ReasonComponentFailing,
	})
	want := &failure{
		errors: []string{
			"DataService platform is not ready: 1/2 components, phase Degraded (ComponentFailing): auth: pod auth-1: ImagePullBackOff",
			"auth (Deployment): Degraded, 0 of 2 pods are ready: pod auth-1: ImagePullBackOff",
		},
		suggestions: []string{"make the examples' images available to the cluster's nodes"},
	}
	if diff := cmp.Diff(want, unready(ds), cmp.AllowUnexported(failure{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	apimeta.SetStatusCondition(&ds.Status.Conditions, metav1.Condition{Type: dsv1.ConditionReady, Status: metav1.ConditionTrue, Reason: dsv1.ReasonAllReady})
	if f := unready(ds); f != nil {
		t.Errorf("ready, but %v", f)
	}
	ds.Generation = 3
	if unready(ds) == nil {
		t.Error("ready, but of an earlier spec")
	}
}

// The role of a trial can list every kind. It cannot read Secrets, delete claims, or create or delete pods.
func TestRights(t *testing.T) {
	data, err := os.ReadFile("rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(data), "\n---\n") {
		var r rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatal(err)
		}
		if r.Kind != "ClusterRole" || r.Name != role {
			continue
		}
		may := map[string]bool{}
		for _, rule := range r.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						may[verb+" "+resource+"."+group] = true
					}
				}
			}
		}
		for _, kind := range kinds {
			plural, _ := apimeta.UnsafeGuessKindToResource(kind)
			if !may["list "+plural.Resource+"."+plural.Group] {
				t.Errorf("the role lacks list of %s", plural.Resource)
			}
		}
		for _, much := range []string{"get secrets.", "delete persistentvolumeclaims.", "create pods.", "delete pods."} {
			if may[much] {
				t.Errorf("the role allows %s", much)
			}
		}
		return
	}
	t.Errorf("rbac.yaml has no ClusterRole %s", role)
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatal(err)
	}
}
