// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// used returns the rights that an operator's requests needed, and the requests that were refused:
// from the audit log, or from what was recorded of them where the cluster is not the test's own.
func (e *env) used(op *stage.Operator, account string) (used map[right]bool, refused []string) {
	e.Helper()
	requests := op.Since(0, func(harness.Sent) bool { return true })
	if audit != "" {
		requests = e.audited(account)
	}
	used = map[right]bool{}
	for _, r := range requests {
		if r.Resource == "" || r.Resource[0] == '/' {
			continue // discovery, which is everyone's
		}
		switch r.Verb {
		case "apply", "try":
			r.Verb = "patch"
		}
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
		var event struct {
			Verb string `json:"verb"`
			User struct {
				Username string `json:"username"`
			} `json:"user"`
			Object struct {
				APIGroup    string `json:"apiGroup"`
				Resource    string `json:"resource"`
				Subresource string `json:"subresource"`
				Namespace   string `json:"namespace"`
				Name        string `json:"name"`
			} `json:"objectRef"`
			Response struct {
				Code int `json:"code"`
			} `json:"responseStatus"`
		}
		e.Must(json.Unmarshal(lines.Bytes(), &event))
		if event.User.Username != "system:serviceaccount:"+e.Namespace+":"+account || event.Object.Resource == "" {
			continue
		}
		o := event.Object
		if o.Subresource != "" {
			o.Resource += "/" + o.Subresource
		}
		found = append(found, harness.Sent{
			Request: harness.Request{Verb: event.Verb, Group: o.APIGroup, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name},
			Code:    event.Response.Code,
		})
	}
	e.Must(lines.Err())
	if len(found) == 0 {
		e.Fatalf("%s has nothing of account %s", audit, account)
	}
	return found
}
