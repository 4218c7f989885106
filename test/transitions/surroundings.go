// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/live"
)

// surroundings are what others do to the namespace or have in it.
func surroundings() []job {
	return []job{
		{name: "surroundings: quota", base: "middleware", do: quota},
		{name: "surroundings: limit range", base: "middleware", do: limitRange},
		{name: "surroundings: node port", base: "middleware", do: takenNodePort},
		{name: "surroundings: webhook", base: "middleware", do: sidecarWebhook},
		{name: "surroundings: namespace", base: "middleware", do: terminatingNamespace},
	}
}

// more is a change that needs another pod.
var more = on(fieldsOf{"replica": 3})

// hindered puts an object in the way of a change, which is then named, and takes it away.
func (w *walker) hindered(ctx context.Context, what string, hindrance client.Object, change fieldsOf, reason string, words ...string) error {
	hindrance.SetName("hindrance")
	hindrance.SetNamespace(w.space.Name)
	if err := w.api.Create(ctx, hindrance); err != nil {
		return err
	}
	if q, ok := hindrance.(*corev1.ResourceQuota); ok {
		if err := w.until(func() error {
			if err := w.api.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil || len(q.Status.Hard) == 0 {
				return errors.Join(errors.New("the quota is not in force"), err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	err := w.calm(20, 20, func() error {
		generation, err := w.change(ctx, changed(w.spec, change))
		if err != nil {
			return err
		}
		return w.until(func() error { return w.says(w.name, generation, dsv1.ConditionDegraded, reason, words...) })
	})
	err = errors.Join(err, w.api.Delete(ctx, hindrance))
	if err == nil { // without it, the change is carried out
		ds := w.last(w.name)
		err = w.until(func() error { return w.isReady(w.name, ds.Generation) })
	}
	return w.record(ctx, "surroundings", what, troubled, errors.Join(err, w.recovered(ctx)))
}

func quota(ctx context.Context, w *walker) error {
	pods := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	services := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/services": resource.MustParse("1")}}}
	if err := w.hindered(ctx, "a quota of pods", pods, more, dsv1.ReasonComponentFailing, "reports", "exceeded quota"); err != nil {
		return err
	}
	return w.hindered(ctx, "a quota of objects", services, fieldsOf{"eureka": fieldsOf{"name": "registry"}}, dsv1.ReasonApplyFailed, "registry", "exceeded quota")
}

func limitRange(ctx context.Context, w *walker) error {
	least := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Gi")},
	}}}}
	if err := w.hindered(ctx, "a LimitRange that no pod fits", least, more, dsv1.ReasonComponentFailing, "reports", "minimum memory usage"); err != nil {
		return err
	}
	// Defaults of others are set in pods, and nothing is corrected.
	defaults := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
	}}}}
	defaults.Name, defaults.Namespace = "defaults", w.space.Name
	if err := w.api.Create(ctx, defaults); err != nil {
		return err
	}
	_, err := w.carryOut(ctx, changed(w.spec, more))
	return w.record(ctx, "surroundings", "a LimitRange with defaults", carriedOut, errors.Join(err, w.quiet(), w.recovered(ctx)))
}

func takenNodePort(ctx context.Context, w *walker) error {
	err := w.calm(20, 20, func() error {
		generation, err := w.change(ctx, changed(w.spec, on(fieldsOf{"nodePort": 80})))
		if err != nil {
			return err
		}
		return w.until(func() error {
			return w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonApplyFailed, "reports", "nodePort")
		})
	})
	err = errors.Join(err, w.recovered(ctx))
	if err := w.record(ctx, "surroundings", "a node port outside of the range", troubled, err); err != nil {
		return err
	}
	port := int32(w.nodePort())
	taken := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}},
	}}
	return w.hindered(ctx, "a node port that is taken", taken, on(fieldsOf{"nodePort": int64(port)}), dsv1.ReasonApplyFailed, "reports", "nodePort", "already allocated")
}

// sidecarWebhook runs a webhook in this process that adds a container to Deployments.
func sidecarWebhook(ctx context.Context, w *walker) error {
	server := httptest.NewTLSServer(&admission.Webhook{Handler: admission.HandlerFunc(addSidecar)})
	defer server.Close()
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "sidecar-" + w.space.Name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "sidecar.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.space.Name}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	if err := w.api.Create(ctx, hook); err != nil {
		return err
	}
	err := w.become(ctx, changed(w.spec, flips["reports.image"]))
	if err == nil {
		err = w.eventually(ctx, func(objects live.Objects) error {
			reports := objects["Deployment/reports"].Object
			containers, _, _ := unstructured.NestedSlice(reports, "spec", "template", "spec", "containers")
			if len(containers) != 2 {
				return fmt.Errorf("%d containers", len(containers))
			}
			return nil
		})
	}
	if err == nil {
		err = w.quiet() // nobody takes it out again
	}
	w.report.add(result{kind: "surroundings", what: "a webhook that adds a sidecar", verdict: carriedOut, err: err})
	return errors.Join(w.api.Delete(ctx, hook), ctx.Err())
}

func addSidecar(_ context.Context, request admission.Request) admission.Response {
	deployment := &appsv1.Deployment{}
	if err := json.Unmarshal(request.Object.Raw, deployment); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	pod := &deployment.Spec.Template.Spec
	if len(pod.Containers) == 1 {
		pod.Containers = append(pod.Containers, corev1.Container{Name: "mesh", Image: "registry.example.com/mesh:v1"})
	}
	mutated, err := json.Marshal(deployment)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, mutated)
}

// terminatingNamespace: nothing is tried over and over in a namespace that goes.
func terminatingNamespace(ctx context.Context, w *walker) error {
	// What holds the namespace back, so that there is time to look.
	holder := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holder", Namespace: w.space.Name, Finalizers: []string{"example.com/hold"}}}
	if err := w.api.Create(ctx, holder); err != nil {
		return err
	}
	err := w.calm(40, 15, func() error {
		if err := w.api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.space.Name}}); err != nil {
			return err
		}
		if err := w.eventually(ctx, func(objects live.Objects) error {
			if len(objects) > 0 {
				return fmt.Errorf("%d objects are still there", len(objects))
			}
			return nil
		}); err != nil {
			return err
		}
		return w.quiet()
	})
	w.report.add(result{kind: "surroundings", what: "a terminating namespace", verdict: carriedOut, err: err})
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return client.IgnoreNotFound(w.api.Patch(ctx, holder, patch))
}
