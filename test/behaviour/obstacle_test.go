// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// rewriting installs an admission webhook that changes created and updated objects of the namespace, like a cluster's policies.
func (e *env) rewriting(change func(object *unstructured.Unstructured), resources ...schema.GroupResource) {
	e.Helper()
	var asked atomic.Bool
	handler := admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Object.Raw, &object.Object); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		asked.Store(true)
		change(object)
		changed, err := json.Marshal(object)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(r.Object.Raw, changed)
	})
	server := httptest.NewTLSServer(&admission.Webhook{Handler: handler})
	e.Cleanup(server.Close)
	hook := admissionregistrationv1.MutatingWebhook{
		Name: "rewriting.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
		TimeoutSeconds:          ptr.To[int32](30), // the maximum, because the machine may be busy
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
	for _, r := range resources {
		hook.Rules = append(hook.Rules, admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{r.Group}, APIVersions: []string{"v1"}, Resources: []string{r.Resource}},
		})
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "rewriting-" + e.Namespace}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook},
	}
	e.Must(api.Create(e.Ctx, configuration))
	e.Cleanup(func() { e.Must(api.Delete(context.WithoutCancel(e.Ctx), configuration)) })
	e.Until("the API server asks the webhook", func() error {
		err := api.Create(e.Ctx, idle(metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe"}), client.DryRunAll)
		return errors.Join(err, stage.Unless(asked.Load(), "it does not"))
	})
}

// If a policy of the cluster changes the number of pods or the images of workloads, the operator records one event for
// each object. It writes nothing again and reports no correction. The status and `why` name the object, the field and
// both values.
func TestRewritingPolicies(t *testing.T) {
	e := parallel(t)
	e.rewriting(func(o *unstructured.Unstructured) {
		if o.GetName() == "web" {
			_ = unstructured.SetNestedField(o.Object, int64(1), "spec", "replicas")
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			c := c.(map[string]any)
			if image, _ := c["image"].(string); o.GetName() == "auth" && !strings.HasPrefix(image, "mirror.example/") {
				c["image"] = "mirror.example/" + image
			}
		}
		_ = unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}, schema.GroupResource{Group: "apps", Resource: "deployments"})
	op := e.Start()
	name := e.CreateReady(small(fields{"web": fields{"replica": 3}}))
	e.passes(name)
	const says = "Deployment web: a policy of the cluster changed spec.replicas to 1, the operator asked for 3"
	events := func(reason string) (n int) {
		for _, event := range harness.Every[*eventsv1.Event](e.Journal) {
			if event.Reason == reason {
				n++
			}
		}
		return n
	}
	check := func() {
		e.Helper()
		// The operator sends events in the background.
		e.Until("both objects have an event", func() error {
			return stage.Unless(events("PolicyChangedObject") >= 2, fmt.Sprintf("%d have", events("PolicyChangedObject")))
		})
		ds := e.DataService(name)
		for _, c := range ds.Status.Components {
			if c.Name == "web" && !strings.Contains(c.Message, says) || c.Name == "auth" && !strings.Contains(c.Message, `.image to "mirror.example/`) {
				e.Errorf("%s says %q", c.Name, c.Message)
			}
		}
		if err := harness.Mentions(ds.Status.Message, "a policy of the cluster changed"); err != nil {
			e.Errorf("status.message: %v", err)
		}
		if drift, policy := events("DriftCorrected"), events("PolicyChangedObject"); drift > 0 || policy != 2 {
			e.Errorf("%d events of corrections, %d of the policy", drift, policy)
		}
	}
	check()
	for _, d := range []string{"auth", "web"} {
		written := func(r harness.Sent) bool {
			return r.WritesObject() && r.Resource == "deployments" && r.Name == d && r.Code < http.StatusMultipleChoices
		}
		if n := len(op.Since(0, written)); n != 1 {
			t.Errorf("%s was written %d times", d, n)
		}
	}
	mark := op.Mark()
	e.Change(name, fields{"proxy": fields{"image": "registry.example/proxy:v2"}})
	e.Ready(name)
	e.equal("objects written", harness.Objects(op.Since(mark, harness.Sent.WritesObject)), []string{"Deployment/proxy"})
	check()
}
