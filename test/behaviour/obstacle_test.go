// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
)

// soon makes an operator try again after a second what was refused by something whose change it does not see.
func soon(_ *rest.Config, o *manager.Options) { o.RetryRefused = time.Second }

// forbid lets the API server refuse Deployments of the namespace with an image, and returns what undoes that. Each returns when
// the API server has taken it up.
func (e *env) forbid(image string) (policy string, allow func()) {
	e.Helper()
	name := "no-image-" + e.Namespace
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
			},
		},
	}
	e.Must(api.Create(e.Ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: binding.ObjectMeta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "!object.spec.template.spec.containers.exists(c, c.image == '" + image + "')", Message: "that image is not allowed",
			}},
		},
	}))
	e.Must(api.Create(e.Ctx, binding))
	e.Cleanup(func() {
		e.Must(client.IgnoreNotFound(api.Delete(e.Ctx, binding)))
		e.Must(api.Delete(e.Ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	})
	inForce := func(want bool) {
		e.Until("the API server follows the policy", func() error {
			d := harness.Lookup[*appsv1.Deployment](e.Journal, "auth").DeepCopy()
			d.Spec.Template.Spec.Containers[0].Image, d.ResourceVersion = image, ""
			err := api.Update(e.Ctx, d, client.DryRunAll)
			return unless((err != nil) == want, fmt.Sprint("its answer is ", err))
		})
	}
	inForce(true)
	return name, func() {
		e.Must(api.Delete(e.Ctx, binding))
		inForce(false)
	}
}

// What an admission policy refuses is named with the policy, and that it may pass; the other components run on. The operator
// gets over it without an event when the policy changes: it tries again after a while, whether a dry run found it or the write.
func TestAdmissionPolicyThatRefuses(t *testing.T) {
	t.Parallel()
	const image = "registry.example/refused:v1"
	for name, c := range map[string]struct {
		auth   fields
		reason string
		says   string
	}{
		"in a dry run": {fields{"sidecars": []any{fields{"name": "more", "image": image}}}, dsv1.ReasonInvalidSpec, "tried again every 1s, as the policy may change"},
		"in a write":   {fields{"image": image}, dsv1.ReasonApplyFailed, "Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			e := parallel(t)
			op := e.Start(soon)
			ds := e.CreateReady(small())
			policy, allow := e.forbid(image)
			e.Change(ds, fields{"auth": c.auth})
			e.condition(ds, dsv1.ConditionDegraded, metav1.ConditionTrue, c.reason, "auth", policy, "that image is not allowed", c.says)
			e.never("writes go on", func() bool { return len(op.Since(0, harness.Sent.WritesStatus)) > 20 })
			allow()
			e.Ready(ds)
			has := func(c corev1.Container) bool { return c.Image == image }
			if pods := e.pods("auth"); len(pods) == 0 || !slices.ContainsFunc(pods[0].Spec.Containers, has) {
				t.Error("auth does not run the image that is allowed now")
			}
		})
	}
}
