// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

const managedBy = "app.kubernetes.io/managed-by"

// right is one verb on one resource.
type right struct{ group, resource, verb string }

func texts(rights map[right]bool) []string {
	var found []string
	for r := range maps.Keys(rights) {
		found = append(found, fmt.Sprintf("%s %s.%s", r.verb, r.resource, r.group))
	}
	slices.Sort(found)
	return found
}

func rightsOf(rule rbacv1.PolicyRule) []right {
	var found []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				found = append(found, right{group, resource, verb})
			}
		}
	}
	return found
}
