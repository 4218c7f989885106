// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
)

// reasonNoGateway is the reason, in a culprit, of an HTTPRoute without a Gateway.
const reasonNoGateway = "NoGateway"

// route returns the first HTTPRoute of the component that no Gateway handles or that a Gateway refuses, with the problem. The problem is ""
// if there is none. https://gateway-api.sigs.k8s.io/geps/gep-1364 defines the conditions.
func (f *Facts) route() (health.Culprit, string) {
	for _, o := range f.Objects {
		if o.GroupVersionKind() != object.Route || f.Now.Sub(o.GetCreationTimestamp().Time) < reports {
			continue
		}
		reason, message := refusedRoute(o)
		if reason == "" {
			continue
		}
		culprit := health.Culprit{Kind: o.GetKind(), Name: o.GetName(), Reason: reason, Message: message}
		return culprit, fmt.Sprintf("HTTPRoute %s: %s: %s", culprit.Name, reason, message)
	}
	return health.Culprit{}, ""
}

// refusedRoute returns the reason why a route has no effect, or "": a Gateway refuses the route, or a Gateway has set
// no status for it.
func refusedRoute(route *unstructured.Unstructured) (reason, message string) {
	wanted := items(route, "spec", "parentRefs")
	parents := items(route, "status", "parents")
	for _, parent := range parents {
		ref, _ := parent["parentRef"].(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(parent, "conditions")
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			isProof := condition["type"] == "Accepted" || condition["type"] == "ResolvedRefs"
			if isProof && condition["status"] == "False" {
				return fmt.Sprint(condition["reason"]), fmt.Sprintf("Gateway %s: %v", gatewayOf(ref), condition["message"])
			}
		}
	}
	for _, want := range wanted {
		if !carried(want, parents) {
			return reasonNoGateway, fmt.Sprintf("Gateway %s does not serve the route: the Gateway does not exist, or no controller serves the Gateway", gatewayOf(want))
		}
	}
	return "", ""
}

// carried reports whether a Gateway has set a status for the route.
func carried(want map[string]any, parents []map[string]any) bool {
	for _, parent := range parents {
		if ref, _ := parent["parentRef"].(map[string]any); gatewayOf(ref) == gatewayOf(want) {
			return true
		}
	}
	return false
}

// gatewayOf returns the name of the Gateway in a reference as namespace/name/listener. Parts that the reference omits are missing.
func gatewayOf(ref map[string]any) string {
	text := fmt.Sprint(ref["name"])
	if namespace, _ := ref["namespace"].(string); namespace != "" {
		text = namespace + "/" + text
	}
	if section, _ := ref["sectionName"].(string); section != "" {
		text += "/" + section
	}
	return text
}

// items returns the maps in a list of an object.
func items(o *unstructured.Unstructured, path ...string) (found []map[string]any) {
	list, _, _ := unstructured.NestedSlice(o.Object, path...)
	for _, item := range list {
		if entry, ok := item.(map[string]any); ok {
			found = append(found, entry)
		}
	}
	return found
}
