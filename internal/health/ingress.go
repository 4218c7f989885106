// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ReasonNoIngressClass is the reason of an Ingress whose IngressClass does not exist.
const ReasonNoIngressClass = "NoIngressClass"

// ClassOf returns the name of the IngressClass of an Ingress. It returns "" if the object is no Ingress or names no class: some controllers
// serve an Ingress without a class.
func ClassOf(o *unstructured.Unstructured) string {
	if o.GetKind() != "Ingress" {
		return ""
	}
	class, _, _ := unstructured.NestedString(o.Object, "spec", "ingressClassName")
	return class
}

// AddNoClass requests an IngressClass for an Ingress whose class does not exist. The component stays settled: its pods run, and some
// controllers serve a class that has no object.
func (s *State) AddNoClass(ingress *unstructured.Unstructured) {
	message := fmt.Sprintf("no IngressClass %q exists in this cluster: set ingress.className to an existing class, or install the controller of this class", ClassOf(ingress))
	s.request(Culprit{ingress.GetKind(), ingress.GetName(), ReasonNoIngressClass, message}, time.Time{})
}
