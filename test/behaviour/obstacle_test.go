// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// soon makes an operator try again after a second what was refused by something whose change it does not see.
func soon(_ *rest.Config, o *manager.Options) { o.RetryRefused = time.Second }

// refusing is a policy by which the API server refuses Deployments of a namespace with an image, and its binding.
const refusing = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-image-NAMESPACE}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]
  validations:
  - message: that image is not allowed
    expression: "!object.spec.template.spec.containers.exists(c, c.image == 'IMAGE')"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-image-NAMESPACE}
spec:
  policyName: no-image-NAMESPACE
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
`

// forbid puts such a policy into force, and returns its name and what undoes it. Each returns when the API server has
// taken it up.
func (e *env) forbid(image string) (policy string, allow func()) {
	e.Helper()
	objects := objectsOf(e, strings.NewReplacer("NAMESPACE", e.Namespace, "IMAGE", image).Replace(refusing))
	for _, object := range objects {
		e.Must(api.Create(e.Ctx, object))
	}
	inForce := func(want bool) {
		e.Until("the API server follows the policy", func() error {
			d := harness.Lookup[*appsv1.Deployment](e.Journal, "auth").DeepCopy()
			d.Spec.Template.Spec.Containers[0].Image, d.ResourceVersion = image, ""
			err := api.Update(e.Ctx, d, client.DryRunAll)
			return stage.Unless((err != nil) == want, fmt.Sprint("its answer is ", err))
		})
	}
	inForce(true)
	return objects[0].GetName(), func() {
		e.Must(api.Delete(e.Ctx, objects[1]))
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
