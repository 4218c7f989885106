// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The real MongoDB operator reconciles the resource that this operator creates. The pods of the simulated cluster do nothing, so the
// function agents simulates their agents.
func TestMongoDBOperator(t *testing.T) {
	harness.Long(t)
	e := alone(t) // the test creates and deletes the CRD of MongoDB
	m := &realMongoOperator{mongoOperator: &mongoOperator{env: e}}
	m.prepare()
	m.start()
	e.Start()

	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: mongodbConnection}}
	e.Must(api.Create(e.Ctx, stranger))
	reports := fields{"name": "reports", "image": "registry.example/reports:v1", "port": 8080, "dependsOn": []string{mongodb}}
	name := e.Create(small(fields{mongodb: fields{"credentialsSecret": "mongodb-account"}, "additionalServices": []any{reports}}))
	m.fails(name, "Error ensuring User config: user password secret: ", "Secret mongodb-account: SecretMissing")

	e.Change(name, fields{mongodb: fields{"credentialsSecret": nil}})
	m.why(name, `StatefulSet mongodb: FailedCreate: serviceaccount "mongodb-database" not found`, "look at StatefulSet mongodb")
	e.Until("the account is named", func() error { return e.mentions(name, mongodb, "no pod exists", "mongodb-database") })
	m.apply("config/samples/mongodb/account.yaml")

	// MongoDB's operator reports success, but the services have no connection string.
	m.why(name, "mongodb: Secret "+mongodbConnection+": Conflict: it does not belong to MongoDBCommunity mongodb")
	m.Must(m.read())
	if phase, _, _ := unstructured.NestedString(m.live.Object, "status", "phase"); phase != "Running" || m.live.GetAnnotations()[mongodbRecord] == "" {
		t.Errorf("the resource reports the failure, but a success is expected: %s %v", phase, m.live.GetAnnotations())
	}
	if harness.Lookup[*appsv1.Deployment](e.Journal, "reports") != nil {
		t.Error("reports was created before mongodb was ready")
	}
	m.stop()
	e.Must(api.Delete(e.Ctx, stranger))
	m.start()
	e.Ready(name)
	m.serves(mongodb + "-credentials")
	m.connects(harness.Lookup[*appsv1.Deployment](e.Journal, "reports"))

	for _, change := range []fields{{"size": "medium"}, {"version": "8.0.15"}, {"replicas": 4}, {"replicas": 3}, {"config": fields{"net": fields{"maxIncomingConnections": 100}}}} {
		e.ChangeReady(name, fields{mongodb: change})
		t.Logf("ready after %v", change)
		m.serves(mongodb + "-credentials")
	}
	m.rotates(name)
	m.takesASecret(name)
	m.comesBack(name)
}

// why waits until the first two lines of `kubectl dataservice why` name all words.
func (m *realMongoOperator) why(name string, words ...string) {
	m.Helper()
	m.whyNames(m.plugin, name, words...)
}

// fails waits until MongoDB's operator reports a message, and until the status and `kubectl dataservice why` name the cause.
func (m *realMongoOperator) fails(name, reported, cause string) {
	m.Helper()
	m.Until("MongoDB's operator reports the failure", func() error {
		if err := m.read(); err != nil {
			return err
		}
		message, _, _ := unstructured.NestedString(m.live.Object, "status", "message")
		return harness.Mentions(message, reported)
	})
	m.Until("the cause is in the status", func() error { return m.mentions(name, mongodb, cause) })
	m.why(name, "mongodb: "+cause)
}

// serves expects that the connection string contains the password in use, and that all members run the latest spec.
func (m *realMongoOperator) serves(credentials string) {
	m.Helper()
	m.Must(m.read())
	account := get(m.env, &corev1.Secret{}, credentials)
	connection := get(m.env, &corev1.Secret{}, mongodbConnection)
	password := string(connection.Data["password"])
	if password == "" || password != string(account.Data["password"]) || !strings.Contains(string(connection.Data["connectionString.standard"]), ":"+password+"@") {
		m.Errorf("the connection string does not have the password in use: %s", connection.Data)
	}
	members, _, _ := unstructured.NestedInt64(m.live.Object, "spec", "members")
	version, _, _ := unstructured.NestedString(m.live.Object, "spec", "version")
	revision, _, _ := unstructured.NestedString(m.live.Object, "spec", "statefulSet", "spec", "template", "metadata", "labels", object.LabelRevision)
	pods := m.pods(mongodb)
	if len(pods) != int(members) {
		m.Errorf("%d pods of %d members", len(pods), members)
	}
	set := get(m.env, &appsv1.StatefulSet{}, mongodb)
	for _, pod := range pods {
		at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "mongod" })
		if !stage.IsReady(pod) || pod.Labels[object.LabelRevision] != revision || pod.Labels["controller-revision-hash"] != set.Status.UpdateRevision ||
			!strings.Contains(pod.Spec.Containers[at].Image, version) {
			m.Errorf("pod %s is not of the latest spec: %v, %s", pod.Name, pod.Labels, pod.Spec.Containers[at].Image)
		}
	}
}

// rotates expects that a new password is not in use until MongoDB's operator runs again.
func (m *realMongoOperator) rotates(name string) {
	m.Helper()
	m.stop()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: mongodb + "-credentials"}}
	m.Must(api.Patch(m.Ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"password":"another"}}`))))
	m.Until("the password is not in use", func() error {
		return m.mentions(name, mongodb, mongodbConnection, "has not written the password of Secret "+secret.Name, "restart MongoDB's operator")
	})
	m.start()
	m.Until("the password is in use", func() error {
		if string(get(m.env, &corev1.Secret{}, mongodbConnection).Data["password"]) != "another" {
			return errors.New("it is not")
		}
		return nil
	})
	m.Ready(name)
	m.serves(mongodb + "-credentials")
}

// takesASecret expects the password in a user's Secret to be in use. If the Secret is missing and MongoDB's operator
// has another password of the account, that operator only logs the missing Secret, and does not detect the later
// creation.
func (m *realMongoOperator) takesASecret(name string) {
	m.Helper()
	account := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: "mongodb-account"}, StringData: map[string]string{"password": "theirs"}}
	m.Must(api.Create(m.Ctx, account.DeepCopy()))
	m.ChangeReady(name, fields{mongodb: fields{"credentialsSecret": account.Name}})
	m.serves(account.Name)

	account.Name = "mongodb-other"
	m.Change(name, fields{mongodb: fields{"credentialsSecret": account.Name}})
	m.Until("the missing Secret is named", func() error { return m.mentions(name, mongodb, "Secret "+account.Name+": SecretMissing") })
	account.StringData["password"] = "others"
	m.Must(api.Create(m.Ctx, account))
	m.stop() // MongoDB's operator does not watch the Secret, but reads it after a restart
	m.start()
	m.Ready(name)
	m.serves(account.Name)
	m.ChangeReady(name, fields{mongodb: fields{"credentialsSecret": nil}})
	m.serves(mongodb + "-credentials")
}

// comesBack removes a replica set while a pod is broken, and creates it again. The new replica set must have the former password and
// claims.
func (m *realMongoOperator) comesBack(name string) {
	m.Helper()
	m.Change(name, fields{mongodb: fields{"image": "registry.example/mongod:does-not-exist"}})
	m.why(name, "mongodb: pod mongodb-2: ImagePullBackOff", "registry.example/mongod:does-not-exist", "look at Pod mongodb-2")

	claims := m.claims()
	m.Change(name, fields{mongodb: nil, "additionalServices": nil})
	m.Until("the replica set goes", func() error {
		err := m.read()
		if client.IgnoreNotFound(err) != nil || m.live != nil {
			return fmt.Errorf("it is still there: %w", err)
		}
		return stage.Unless(len(m.pods(mongodb)) == 0 && harness.Lookup[*corev1.Secret](m.Journal, mongodbConnection) == nil, "its pods and Secrets are still there")
	})
	m.Ready(name)
	m.ChangeReady(name, fields{mongodb: fields{}})
	m.serves(mongodb + "-credentials")
	if password := string(get(m.env, &corev1.Secret{}, mongodb+"-credentials").Data["password"]); password != "another" {
		m.Errorf("the password is %s", password)
	}
	if after := m.claims(); len(claims) < 6 || !reflect.DeepEqual(after, claims) {
		m.Errorf("the claims were %v, and are %v", claims, after)
	}
}

// claims returns the UIDs of the members' claims, by name.
func (m *realMongoOperator) claims() map[string]types.UID {
	found := map[string]types.UID{}
	for _, claim := range harness.Every[*corev1.PersistentVolumeClaim](m.Journal) {
		if strings.HasSuffix(strings.TrimRight(claim.Name, "0123456789"), "-volume-"+mongodb+"-") {
			found[claim.Name] = claim.UID
		}
	}
	return found
}
