// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"gotest.tools/v3/assert"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/cli/foresee"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

// Whatever is wrong, the first two lines of why name the cause and the object to look at, to who may only view.
func TestWhy(t *testing.T) {
	service := func(e *env) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	quota := func(e *env) client.Object {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "limit"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: apiresource.MustParse("3")}}}
	}
	port := func(e *env) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "taken"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30007}}}} // from the part of the range that the API server chooses from last
	}
	for _, c := range []struct {
		name   string
		before func(*env) client.Object // what is there before the DataService
		wrong  fields
		names  []string
	}{
		{"image", nil, fields{"auth": fields{"image": "registry.example/auth:does-not-exist"}},
			[]string{"auth: pod auth-", "ImagePullBackOff", "registry.example/auth:does-not-exist", "look at Pod auth-"}},
		{"crash", nil, fields{"proxy": fields{"image": "registry.example/proxy:crash-loop"}},
			[]string{"proxy: pod proxy-", "CrashLoopBackOff", "exit code 1", "look at Pod proxy-"}},
		{"probe", nil, fields{"auth": fields{"image": "registry.example/auth:never-ready"}},
			[]string{"auth: pod auth-", "Readiness probe failed: connection refused", "look at Pod auth-"}},
		{"third party", nil, fields{"uuc": fields{"image": "registry.example/curl:never-ready"}},
			[]string{"uuc: the third party http", "does not answer: connection refused", "look at Pod uuc-probe-"}},
		{"fits nowhere", nil, fields{"auth": fields{"resources": fields{"requests": fields{"cpu": "1000"}}}},
			[]string{"auth: pod auth-", "Insufficient cpu", "look at Pod auth-"}},
		{"statefulset refused", nil, fields{"mysql": fields{"priorityClassName": "there-is-none"}},
			[]string{"mysql: StatefulSet mysql-dataservice", "FailedCreate", "no PriorityClass with name there-is-none", "look at StatefulSet mysql-dataservice"}},
		{"deployment refused", nil, fields{"auth": fields{"priorityClassName": "there-is-none"}},
			[]string{"auth: Deployment auth", "no PriorityClass with name there-is-none", "look at Deployment auth"}},
		{"service account", nil, fields{"auth": fields{"serviceAccountName": "there-is-none"}},
			[]string{"auth: Deployment auth", `serviceaccount "there-is-none" not found`, "look at Deployment auth"}},
		{"node port taken", port, fields{"web": fields{"serviceType": "NodePort", "nodePort": 30007}},
			[]string{"web: ", "30007", "provided port is already allocated", "look at DataService"}},
		{"claim pending", nil, fields{"mysql": fields{"storage": fields{"storageClassName": "there-is-none"}}},
			[]string{"mysql: PersistentVolumeClaim data-mysql-dataservice-0", "ProvisioningFailed", "there-is-none", "look at PersistentVolumeClaim data-mysql-dataservice-0"}},
		{"quota", quota, nil, []string{"exceeded quota", "look at"}},
		{"somebody else's object", service, nil, []string{"web", "Service web exists and belongs to somebody else", "look at Service web"}},
		{"field that there is not", nil, fields{"auth": fields{"probes": fields{"readyness": fields{"periodSeconds": 1}}}},
			[]string{"InvalidSpec", "spec.auth.probes.readyness", "look at DataService"}},
		{"paused", nil, fields{"paused": true}, []string{"is paused", "look at"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, "view")
			if c.before != nil {
				e.Must(suite.API.Create(e.Ctx, c.before(e)))
			}
			e.Start()
			e.Create(harness.Small(c.wrong))
			e.firstTwo(c.names, "why", name)
			code, _, _ := e.run("why", name)
			assert.Equal(t, code, exitNo)
		})
	}
}

// A policy of the cluster that refuses pods, as a webhook does, is named with its words.
func TestWhyOfAPolicy(t *testing.T) {
	e := newEnv(t, "view")
	pods := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{pods}},
		MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "component", Expression: "has(object.metadata.labels) && object.metadata.labels[?'" + object.LabelComponent + "'].orValue('') == 'auth'"}},
		Validations:      []admissionregistrationv1.Validation{{Expression: "false", Message: "no team label"}},
	}}
	e.Must(suite.API.Create(e.Ctx, policy))
	t.Cleanup(func() { e.Must(suite.API.Delete(e.Ctx, policy)) })
	e.Must(suite.API.Create(e.Ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: e.Namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}}},
	}}))
	e.Until("the policy is heard", func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "tried", Labels: map[string]string{object.LabelComponent: "auth"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "registry.example/a"}}}}
		err := suite.API.Create(e.Ctx, pod, client.DryRunAll)
		if err == nil {
			return errors.New("a pod is not refused yet")
		}
		return harness.Mentions(err.Error(), "no team label")
	})
	e.Start()
	e.Create(harness.Small())
	e.firstTwo([]string{"auth: Deployment auth", "FailedCreate", "denied request: no team label", "look at Deployment auth"}, "why", name)
}

// A chain of components that wait leads to the one that is to blame; a component that is well is said to be.
func TestWhyOfAComponent(t *testing.T) {
	e := newEnv(t, "view")
	e.Start()
	e.CreateReady(harness.Small())
	e.says(exitYes, []string{"nothing is wrong: all components"}, "why", name)
	e.Change(name, fields{"proxy": fields{"image": "registry.example/proxy:does-not-exist"}, "web": fields{"image": "registry.example/web:v2"}})
	e.says(exitNo, []string{"proxy: pod proxy-", "web waits for proxy"}, "why", name, "web")
	e.says(exitYes, []string{"nothing is wrong: mysql is ready"}, "why", name, "mysql")
	e.says(exitError, []string{"has no component wep", "mysql, uuc"}, "why", name, "wep")
	e.says(exitNo, []string{`"cause": "proxy: pod proxy-`, `"kind": "Pod"`}, "why", name, "-o", "json")
}

// A RedisCluster and an EtcdCluster are asked about by their kind and name, with what is inside of them.
func TestWhyOfAClusterByItself(t *testing.T) {
	t.Parallel()
	waiting := func(gvk schema.GroupVersionKind, name string) map[string]any {
		o := resourceOf(gvk, name)
		o["metadata"].(map[string]any)["generation"] = 1
		o["status"] = map[string]any{"observedGeneration": 1, "phase": "Creating", "conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "PodsNotReady", "message": "0 of 3 pods exist"}}}
		return o
	}
	pod := podOf("cache-0-0", "redis", corev1.ConditionFalse)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "redis", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "manifest unknown"}}}}
	set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "a"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(3))}}
	refused := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Name: "e"}, Reason: "FailedCreate", Type: corev1.EventTypeWarning, Message: "exceeded quota: limit"}
	const sets, events = "GET /apis/apps/v1/namespaces/a/statefulsets", "GET /api/v1/namespaces/a/events"
	answers := func(more map[string]func(int) any) map[string]func(int) any {
		all := map[string]func(int) any{events: always(corev1.EventList{Items: []corev1.Event{refused}}), podsPath: always(corev1.PodList{})}
		for _, gvk := range told { // whatever else there might be inside
			list := map[string]any{"kind": gvk.Kind + "List", "apiVersion": gvk.GroupVersion().String(), "items": []any{}}
			prefix := "GET /apis/" + gvk.GroupVersion().String()
			if gvk.Group == "" {
				prefix = "GET /api/v1"
			}
			all[prefix+"/namespaces/a/"+foresee.ResourceOf(gvk).Resource] = always(list)
		}
		maps.Copy(all, more)
		return all
	}
	setList := map[string]any{"kind": "StatefulSetList", "apiVersion": "apps/v1", "items": []any{set}}
	etcd := answers(map[string]func(int) any{etcdOnes + "/e": always(waiting(etcdKind, "e")), sets: always(setList)})
	cache := answers(map[string]func(int) any{redisOnes + "/cache": always(waiting(redisKind, "cache")), podsPath: always(corev1.PodList{Items: []corev1.Pod{pod}})})
	for _, c := range []struct {
		answers map[string]func(int) any
		args    []string
		code    int
		says    []string
	}{
		{etcd, []string{"etcd/e"}, exitNo, []string{"e: StatefulSet e: FailedCreate: exceeded quota: limit", "look at StatefulSet e"}},
		{etcd, []string{"etcdclusters/e"}, exitNo, []string{"look at StatefulSet e"}},
		{cache, []string{"redis/cache"}, exitNo, []string{"cache: pod cache-0-0: ImagePullBackOff: manifest unknown", "look at Pod cache-0-0"}},
		{cache, []string{"redis/cache", "redis"}, exitError, []string{"RedisCluster cache has no components: leave redis out"}},
		{cache, []string{"pod/cache"}, exitError, []string{"must be the name of a DataService, or redis/NAME"}},
		{cache, []string{"redis/other"}, exitError, []string{"read RedisCluster other in namespace a"}},
	} {
		code, out, errOut := answering(t, c.answers).run(t, append([]string{"why"}, c.args...)...)
		assert.Equal(t, code, c.code, out+errOut)
		assert.NilError(t, harness.Mentions(out+errOut, c.says...))
	}
}

// An operator that does not run is named once it had time enough to report.
func TestWhyOfAnOperatorThatIsDown(t *testing.T) {
	e := newEnv(t, "view")
	op := e.Start()
	e.CreateReady(harness.Small())
	op.Stop()
	e.Change(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	e.firstTwo([]string{"generation 2 was written", "has not reported"}, "why", name)
	e.Until("why names the operator", func() error {
		_, out, _ := e.run("why", name)
		return harness.Mentions(out, "it does not run, or does not watch namespace "+e.Namespace, "app.kubernetes.io/name=d3os-operator")
	})
}

// A message that the operator writes while a component comes up: two faults that nothing else shows.
func TestTheStatusNamesWhatWasSilent(t *testing.T) {
	for component, c := range map[string]struct {
		wrong fields
		says  []string
	}{
		"mysql": {fields{"mysql": fields{"priorityClassName": "there-is-none"}}, []string{"StatefulSet mysql-dataservice: 0 of 1 pods exist", "kubectl describe statefulset"}},
		"uuc":   {fields{"uuc": fields{"image": "registry.example/curl:never-ready"}}, []string{"the third party has not answered", "kubectl describe pod uuc-probe-"}},
	} {
		t.Run(component, func(t *testing.T) {
			e := newEnv(t, "view")
			e.Start()
			e.Create(harness.Small(c.wrong))
			e.Until("the component tells", func() error {
				ds := e.DataService(name)
				if ds == nil {
					return errors.New("it is not there yet")
				}
				for _, got := range ds.Status.Components {
					if got.Name == component && got.Phase == dsv1.PhaseCreating {
						return harness.Mentions(got.Message, c.says...)
					}
				}
				return fmt.Errorf("%+v", ds.Status.Components)
			})
		})
	}
}
