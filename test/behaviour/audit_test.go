// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"d3os.com/d3os-operator/test/harness"
)

// right is one verb on one resource.
type right struct{ group, resource, verb string }

func texts(rights map[right]bool) []string {
	var found []string
	for r := range rights {
		found = append(found, fmt.Sprintf("%s %s.%s", r.verb, r.resource, r.group))
	}
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

// used returns the rights that the requests of an account of the namespace needed, and the requests that were refused.
func (e *env) used(account string) (used map[right]bool, refused []string) {
	e.Helper()
	used = map[right]bool{}
	for _, r := range e.audited(account) {
		used[right{r.Group, r.Resource, r.Verb}] = true
		if r.Verb == "patch" && r.Code == http.StatusCreated { // the API server asks for both
			used[right{r.Group, r.Resource, "create"}] = true
		}
		if r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized {
			refused = append(refused, r.String())
		}
	}
	return used, refused
}

// audited reads what an account of the namespace asked for in the API server's audit log.
func (e *env) audited(account string) []harness.Sent {
	e.Helper()
	file, err := os.Open(audit)
	e.Must(err)
	defer func() { _ = file.Close() }()
	var found []harness.Sent
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		e.Must(json.Unmarshal(lines.Bytes(), &event))
		o := event.ObjectRef
		if event.User.Username != "system:serviceaccount:"+e.Namespace+":"+account || o == nil {
			continue // of others, or discovery, which is everyone's
		}
		sent := harness.Sent{Request: harness.Request{
			Verb: event.Verb, Group: o.APIGroup, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name,
		}}
		if o.Subresource != "" {
			sent.Resource += "/" + o.Subresource
		}
		if event.ResponseStatus != nil {
			sent.Code = int(event.ResponseStatus.Code)
		}
		found = append(found, sent)
	}
	e.Must(lines.Err())
	if len(found) == 0 {
		e.Fatalf("%s has nothing of account %s", audit, account)
	}
	return found
}
