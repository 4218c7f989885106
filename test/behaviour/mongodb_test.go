// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

const (
	mongodb           = "mongodb"
	mongodbRecord     = "mongodb.com/v1.lastSuccessfulConfiguration"
	mongodbConnection = "mongodb-dataservice-dataservice"
)

// The component of spec.mongodb waits until MongoDB's operator runs, and until that operator reports the
// latest spec as ready. Components that depend on mongodb start after mongodb is ready.
func TestMongoDB(t *testing.T) {
	e := alone(t) // the test creates and deletes the CRD, which would disturb the operators of other tests
	e.Start()
	reports := fields{"name": "reports", "image": "registry.example/reports:v1", "port": 8080, "dependsOn": []string{mongodb}}
	name := e.Create(small(fields{mongodb: fields{}, "additionalServices": []any{reports}}))
	e.Until("the missing operator is named", func() error {
		return e.mentions(name, mongodb, "MongoDBCommunity", "install MongoDB's operator for Kubernetes")
	})
	e.Until("the rest of the platform runs", func() error { return e.component(name, "web", dsv1.PhaseRunning) })

	mongo := &mongoOperator{env: e}
	mongo.crd("testdata/mongodbcommunity.yaml")
	e.Until("the resource is created", func() error { return mongo.read() })
	e.Until("it is not reported on", func() error {
		return e.mentions(name, mongodb, "NotObserved", "must run and watch this namespace")
	})
	mongo.status("Pending", "ReplicaSet is not yet ready, retrying in 10 seconds")
	e.Until("the missing pods are reported", func() error {
		return e.mentions(name, mongodb, "no pod exists", "mongodb-database")
	})
	mongo.status("Failed", "Error deploying MongoDB ReplicaSet: no StatefulSet")
	e.Until("its failure is reported", func() error {
		if err := e.component(name, mongodb, dsv1.PhaseDegraded); err != nil {
			return err
		}
		return e.mentions(name, mongodb, "Failed", "no StatefulSet")
	})
	mongo.deploy()
	mongo.status("Running", "")
	e.Until("the record is missing", func() error {
		return e.mentions(name, mongodb, "has not applied the latest spec yet")
	})
	mongo.record()
	e.Until("the connection string is missing", func() error {
		return e.mentions(name, mongodb, mongodbConnection, "has not written the connection string yet")
	})
	if harness.Lookup[*appsv1.Deployment](e.Journal, "reports") != nil {
		t.Error("reports was created before mongodb was ready")
	}
	mongo.connect()
	e.Ready(name)
	mongo.connects(harness.Lookup[*appsv1.Deployment](e.Journal, "reports"))

	mongo.changes(name)
	mongo.isCorrected(name)
	mongo.isRemoved(name)
}

// mentions returns an error unless the message of a component contains all words.
func (e *env) mentions(name, component string, words ...string) error {
	if e.DataService(name) == nil {
		return errors.New("the DataService is not seen yet")
	}
	return harness.Mentions(e.componentStatus(name, component).Message, words...)
}

// changes edits the DataService. Some edits are visible in the annotation with the spec, others only in pods. The
// phase in the status is always Running.
func (m *mongoOperator) changes(name string) {
	m.Helper()
	m.Change(name, fields{mongodb: fields{"version": "8.0.15"}})
	m.Until("Running of the older version does not count", func() error {
		return m.mentions(name, mongodb, "has not applied the latest spec yet")
	})
	m.record()
	m.Until("pods of the older version do not count", func() error {
		return m.mentions(name, mongodb, "0 of 3 pods")
	})
	m.deploy()
	m.Ready(name)

	m.Change(name, fields{mongodb: fields{"replicas": 5}})
	m.Until("Running with fewer members does not count", func() error {
		return m.mentions(name, mongodb, "3 of 5 members")
	})
	m.deploy()
	m.status("Running", "")
	m.record()
	m.Ready(name)

	m.Change(name, fields{mongodb: fields{"size": "medium"}})
	m.Until("Running with pods of the older template does not count", func() error {
		return m.mentions(name, mongodb, "0 of 5 pods")
	})
	m.deploy()
	m.Ready(name)

	pod := m.pods(mongodb)[0]
	m.setPodReady(pod, false)
	m.Until("a pod that is not ready is named", func() error {
		return m.mentions(name, mongodb, pod.Name)
	})
	m.setPodReady(pod, true)
	m.Ready(name)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: mongodb + "-credentials"}}
	m.Must(api.Patch(m.Ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"password":"another"}}`))))
	m.Until("a password that is not in use yet is reported", func() error {
		return m.mentions(name, mongodb, mongodbConnection, "has not written the password of Secret "+secret.Name)
	})
	m.connect()
	m.Ready(name)
}

// isCorrected expects a change by another writer to be reverted.
func (m *mongoOperator) isCorrected(name string) {
	m.Helper()
	m.Must(m.read())
	edited := m.live.DeepCopy()
	m.Must(unstructured.SetNestedField(edited.Object, int64(1), "spec", "members"))
	m.Must(api.Update(m.Ctx, edited))
	m.Until("the number of members is restored", func() error {
		m.Must(m.read())
		members, _, _ := unstructured.NestedInt64(m.live.Object, "spec", "members")
		return stage.Unless(members == 5, fmt.Sprint(members, " members"))
	})
	m.Ready(name)
}

// isRemoved expects the password to outlive the component.
func (m *mongoOperator) isRemoved(name string) {
	m.Helper()
	m.Change(name, fields{mongodb: nil, "additionalServices": nil})
	m.Until("the resource goes", func() error {
		return stage.Unless(client.IgnoreNotFound(m.read()) == nil && m.live == nil, "it is still there")
	})
	m.Ready(name)
	secret := harness.Lookup[*corev1.Secret](m.Journal, mongodb+"-credentials")
	if secret == nil || len(secret.Data["password"]) == 0 || len(secret.OwnerReferences) > 0 {
		m.Errorf("the password is not kept: %v", secret)
	}
}

// mongoOperator writes the same objects as MongoDB's operator, in the order that a test chooses.
type mongoOperator struct {
	*env
	live *unstructured.Unstructured
}

// crd creates the CRD of a file. The CRD is deleted at the end of the test, because other tests run without MongoDB's operator.
func (m *mongoOperator) crd(file string) {
	m.Helper()
	data, err := os.ReadFile(file)
	m.Must(err)
	crd := &unstructured.Unstructured{}
	m.Must(yaml.Unmarshal(data, &crd.Object))
	m.Try("create the CRD, once that of another test is gone", func() error { return api.Create(m.Ctx, crd.DeepCopy()) })
	m.Cleanup(func() {
		m.Must(client.IgnoreNotFound(api.Delete(m.Ctx, crd)))
		// While discovery lists the group, the next test's operator expects the CRD.
		known, err := discovery.NewDiscoveryClientForConfig(config)
		m.Must(err)
		m.Until("the group is gone from discovery", func() error {
			groups, err := known.ServerGroups()
			if err != nil {
				return err
			}
			return stage.Unless(!slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == object.Foreign.Group }), "it is served")
		})
	})
}

// read reads the resource into live. live is nil if the resource does not exist.
func (m *mongoOperator) read() error {
	live := object.Empty(object.Foreign)
	err := api.Get(m.Ctx, client.ObjectKey{Namespace: m.Namespace, Name: mongodb}, live)
	if m.live = live; err != nil {
		m.live = nil
	}
	return err
}

// status writes the status, as after a step of a reconciliation.
func (m *mongoOperator) status(phase, message string) {
	m.Helper()
	m.Must(m.read())
	members, _, _ := unstructured.NestedInt64(m.live.Object, "spec", "members")
	status := fields{"phase": phase, "message": message, "mongoUri": "mongodb://a", "currentMongoDBMembers": members, "currentStatefulSetReplicas": members}
	m.live.Object["status"] = status
	m.Must(api.Status().Update(m.Ctx, m.live))
}

// connect writes the Secret with the connection string.
func (m *mongoOperator) connect() {
	m.Helper()
	m.Must(m.read())
	account := get(m.env, &corev1.Secret{}, mongodb+"-credentials")
	content := fields{
		"apiVersion": "v1", "kind": "Secret", "stringData": fields{"connectionString.standard": "mongodb://a", "password": string(account.Data["password"])},
		"metadata": fields{"name": mongodbConnection, "namespace": m.Namespace},
	}
	secret := &unstructured.Unstructured{Object: content}
	secret.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(m.live, object.Foreign)})
	m.Must(api.Apply(m.Ctx, client.ApplyConfigurationFromUnstructured(secret), client.FieldOwner("mongodb"), client.ForceOwnership))
}

// record writes the annotation with the spec. Like MongoDB's operator, it adds empty fields and loses the content of statefulSet.spec and
// additionalMongodConfig. MongoDB's operator writes the annotation even if it could not write the Secret with the connection string.
func (m *mongoOperator) record() {
	m.Helper()
	m.Must(m.read())
	spec, _, err := unstructured.NestedMap(m.live.Object, "spec")
	m.Must(err)
	spec["arbiters"], spec["statefulSet"], spec["additionalMongodConfig"] = 0, fields{"spec": fields{}, "metadata": fields{}}, fields{}
	spec["agent"] = fields{"logLevel": "", "logFile": "", "maxLogFileDurationHours": 0}
	text, err := json.Marshal(spec)
	m.Must(err)
	patch, err := json.Marshal(fields{"metadata": fields{"annotations": fields{mongodbRecord: string(text)}}})
	m.Must(err)
	m.Must(api.Patch(m.Ctx, m.live, client.RawPatch("application/merge-patch+json", patch)))
}

// deploy applies the StatefulSet with the template of the spec, and waits for its pods.
func (m *mongoOperator) deploy() {
	m.Helper()
	m.Must(m.read())
	given, _, err := unstructured.NestedMap(m.live.Object, "spec", "statefulSet", "spec", "template")
	m.Must(err)
	template := corev1.PodTemplateSpec{}
	m.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(given, &template))
	app := map[string]string{"app": mongodb + "-svc"}
	template.Labels["app"] = app["app"]
	for i := range template.Spec.Containers {
		template.Spec.Containers[i].Image = "registry.example/mongod:v1"
	}
	members, _, _ := unstructured.NestedInt64(m.live.Object, "spec", "members")
	replicas := int32(members)
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: mongodb, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m.live, object.Foreign)}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: app["app"], Selector: &metav1.LabelSelector{MatchLabels: app}, Template: template,
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	m.Must(err)
	m.Must(api.Apply(m.Ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), client.FieldOwner("mongodb"), client.ForceOwnership))
	m.Until("the pods are ready", func() error {
		now := harness.Lookup[*appsv1.StatefulSet](m.Journal, mongodb)
		return stage.Unless(now != nil && now.Status.ObservedGeneration == now.Generation && now.Status.UpdatedReplicas == replicas && now.Status.ReadyReplicas == replicas, "they are not")
	})
}

// connects expects that the pods of a service get the connection string.
func (m *mongoOperator) connects(deployment *appsv1.Deployment) {
	m.Helper()
	for _, v := range deployment.Spec.Template.Spec.Containers[0].Env {
		if v.Name == "SPRING_DATA_MONGODB_URI" && v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil &&
			v.ValueFrom.SecretKeyRef.Name == mongodbConnection && v.ValueFrom.SecretKeyRef.Key == "connectionString.standard" {
			return
		}
	}
	m.Errorf("no connection string: %v", deployment.Spec.Template.Spec.Containers[0].Env)
}
