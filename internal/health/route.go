// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	kindRoute = "HTTPRoute"
	// ReasonNoGateway is the reason of an HTTPRoute without a Gateway.
	ReasonNoGateway = "NoGateway"
	// routeDeadline is the time that the controller of a Gateway has to accept an HTTPRoute.
	routeDeadline = time.Minute
)

// addRoute requests a change of an HTTPRoute that a Gateway refuses, or that no Gateway serves.
// https://gateway-api.sigs.k8s.io/geps/gep-1364 defines the conditions.
func (s *State) addRoute(route *unstructured.Unstructured) {
	parents := items(route.Object, "status", "parents")
	for _, parent := range parents {
		ref, _ := parent["parentRef"].(map[string]any)
		for _, condition := range items(parent, "conditions") {
			if refuses(condition, route.GetGeneration()) {
				message := fmt.Sprintf("Gateway %s: %v", gatewayOf(ref), condition["message"])
				s.request(Culprit{route.GetKind(), route.GetName(), fmt.Sprint(condition["reason"]), message}, since(condition).Add(routeDeadline))
				return
			}
		}
	}
	for _, wanted := range items(route.Object, "spec", "parentRefs") {
		if !serves(parents, wanted) {
			message := fmt.Sprintf("Gateway %s does not serve the route: the Gateway does not exist, or no controller serves the Gateway", gatewayOf(wanted))
			s.request(Culprit{route.GetKind(), route.GetName(), ReasonNoGateway, message}, route.GetCreationTimestamp().Add(routeDeadline))
			return
		}
	}
}

// refuses reports whether a Gateway refuses a route with this condition. A condition of an earlier generation does not count.
func refuses(condition map[string]any, generation int64) bool {
	observed, given := condition["observedGeneration"].(int64)
	return condition["status"] == "False" && (condition["type"] == "Accepted" || condition["type"] == "ResolvedRefs") && (!given || observed == generation)
}

// serves reports whether a Gateway has set a status for the route.
func serves(parents []map[string]any, wanted map[string]any) bool {
	for _, parent := range parents {
		if ref, _ := parent["parentRef"].(map[string]any); gatewayOf(ref) == gatewayOf(wanted) {
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
func items(object map[string]any, path ...string) (found []map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	entries, _ := list.([]any)
	for _, item := range entries {
		if entry, ok := item.(map[string]any); ok {
			found = append(found, entry)
		}
	}
	return found
}
