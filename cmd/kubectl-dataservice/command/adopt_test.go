// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/cmd/kubectl-dataservice/adopt"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// original creates an environment with the sample and the objects that the original operator created for the sample.
func original(t *testing.T, sample *unstructured.Unstructured) *env {
	e := newEnv(t, "edit")
	e.mayWrite()
	name := e.Create(sample)
	e.Until("the DataService is seen", func() error { return stage.Unless(e.DataService(name) != nil, "it is not") })
	for _, c := range harness.OriginalComponents {
		for _, object := range c.Objects(e.DataService(name)) {
			e.Must(suite.API.Create(e.Ctx, object))
		}
	}
	e.Until("the original's pods run", func() error {
		workloads := &appsv1.DeploymentList{}
		if err := suite.API.List(e.Ctx, workloads, client.InNamespace(e.Namespace)); err != nil {
			return err
		}
		for i := range workloads.Items {
			if d := &workloads.Items[i]; d.Status.AvailableReplicas != 1 {
				return fmt.Errorf("%s has no available pod", d.Name)
			}
		}
		return nil
	})
	return e
}

// record records the requests of the user's commands.
func (e *env) record() *harness.Record {
	sent := &harness.Record{}
	e.wrap = sent.Before
	return sent
}

// report runs the command adopt and returns its report.
func (e *env) report(code int, args ...string) *adopt.Report {
	e.Helper()
	got, out, errOut := e.run(append([]string{"adopt", name, "-o", "json"}, args...)...)
	assert.Equal(e.T, got, code, "%s%s", out, errOut)
	report := &adopt.Report{}
	e.Must(json.Unmarshal([]byte(out), report))
	return report
}

// action returns the action on an object, given as Kind/name, in a report.
func action(r *adopt.Report, id string) adopt.Action {
	i := slices.IndexFunc(r.Objects, func(o adopt.Object) bool { return o.Kind+"/"+o.Name == id })
	if i < 0 {
		return ""
	}
	return r.Objects[i].Action
}

// The report has a line for each object and names the obstacles. The command changes nothing.
func TestAdoptionIsReported(t *testing.T) {
	e := original(t, harness.Sample())
	sent := e.record()
	r := e.report(exitYes, "--original-stopped")
	for id, want := range map[string]adopt.Action{
		"DataService/" + name: adopt.Change, "Secret/" + name + "-adoption": adopt.Create, "Secret/" + name + "-platform": adopt.Create,
		"Deployment/auth": adopt.Roll, "Service/auth": adopt.TakeOver, "ConfigMap/auth": adopt.TakeOver, "ConfigMap/trd-adapter-py": adopt.TakeOver,
		"Deployment/eureka": adopt.Roll, "Deployment/uuc-probe": adopt.Create, "StatefulSet/mysql-dataservice": adopt.Leave, "Service/mysql-dataservice": adopt.Leave,
	} {
		assert.Equal(t, action(r, id), want, id)
	}
	rolled := 0
	for _, o := range r.Objects {
		if o.Action == adopt.Roll {
			rolled += int(o.Pods)
		}
	}
	assert.Equal(t, rolled, 10)
	assert.Assert(t, strings.Contains(r.Database, "the data has no volume and is lost when the pod ends"), r.Database)
	code, text, errOut := e.run("adopt", name, "--original-stopped")
	assert.Equal(t, code, exitYes, errOut)
	for _, secret := range []string{harness.OriginalRootPassword, harness.OriginalJWTSecret, harness.OriginalGatewayPassword} {
		assert.Assert(t, !strings.Contains(text, secret), text)
	}

	refused := func(r *adopt.Report, words ...string) {
		t.Helper()
		e.Must(harness.Mentions(strings.Join(r.Refused, "\n"), words...))
	}
	refused(e.report(exitNo), "it is unknown whether the original operator still runs", "--original-stopped")
	e.Must(suite.API.Create(e.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: e.user}},
	}))
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "d3os-operator-old", Labels: map[string]string{"control-plane": "controller-manager"}}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "r/d3os-operator"}}}},
	}}
	wrote := sent.Since(0, harness.Sent.Writes)
	assert.Equal(t, len(wrote), 0, "%v", wrote)
	assert.Assert(t, len(sent.Since(0, harness.Sent.Reads)) > 0, "no request was recorded")
	e.Must(suite.API.Create(e.Ctx, operator))
	e.says(exitNo, []string{"the original operator still runs", "kubectl -n " + e.Namespace + " scale deployment d3os-operator-old --replicas=0"}, "adopt", name)
	e.Must(suite.API.Delete(e.Ctx, operator, client.PropagationPolicy(metav1.DeletePropagationForeground)))

	e.Change(name, fields{"auth": fields{"strategy": "Recreate"}, "eureka": fields{"kind": "StatefulSet"}, "networkPolicy": fields{"enabled": true}})
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web"}}
	e.Must(suite.API.Patch(e.Ctx, foreign, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null,"labels":null}}`))))
	proxy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "proxy"}}
	e.Must(suite.API.Patch(e.Ctx, proxy, client.RawPatch(types.MergePatchType, []byte(`{"data":{"application.yml":"jwt.token.secret: other"}}`))))
	refused(e.report(exitNo, "--original-stopped"), "spec.auth.strategy", "set spec.eureka.kind to Deployment", "spec.networkPolicy",
		"ConfigMap web belongs to another owner: rename component web, or remove that object", "the JWT secret is not the same in the ConfigMaps auth, proxy")
}

// Two cases have nothing to adopt: a DataService that the original operator never reconciled, and a DataService that does not exist.
func TestNothingToAdopt(t *testing.T) {
	e := newEnv(t, "edit")
	e.Create(harness.Small())
	e.says(exitNo, []string{"the original operator made no object of DataService " + name + ": there is nothing to adopt"}, "adopt", name)
	e.says(exitError, []string{"read DataService other"}, "adopt", "other")
}
