// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Request is one request to the API server.
type Request struct {
	Verb      string // get, list, watch, create, update, patch, apply, delete, try (a dry run)
	Group     string // apps; empty for the core group
	Resource  string // deployments, dataservices/status
	Namespace string
	Name      string
	Initial   bool // what a cache begins with: a list of some version, or a watch that starts with one
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s/%s/%s", r.Verb, r.Namespace, r.Resource, r.Name)
}

// Reads reports whether it only asks.
func (r Request) Reads() bool { return r.Verb == "get" || r.Verb == "list" }

// Writes reports whether it is to change something that users care for; events and leases are not.
func (r Request) Writes() bool {
	return !r.Reads() && r.Verb != "watch" && r.Verb != "try" && r.Resource != "events" && r.Resource != "leases" &&
		!strings.HasSuffix(r.Resource, "reviews")
}

// WritesStatus reports whether it is to change a status.
func (r Request) WritesStatus() bool { return r.Writes() && strings.HasSuffix(r.Resource, "/status") }

// WritesObject reports whether it is to change an object, the history of specs aside.
func (r Request) WritesObject() bool {
	return r.Writes() && !strings.Contains(r.Resource, "/") && r.Resource != histories
}

// histories is the resource that holds earlier specs.
const histories = "controllerrevisions"

// WritesHistory reports whether it is to add a spec to a history, or to drop one.
func (r Request) WritesHistory() bool { return r.Writes() && r.Resource == histories }

// ReadsHistory reports whether it asks which specs a full history has, so that the oldest can go.
func (r Request) ReadsHistory() bool { return r.Verb == "list" && r.Resource == histories }

// Parse reads the API server's paths: /api/v1/namespaces/ns/configmaps/name and
// /apis/group/version/..., with a subresource at the end at times.
func Parse(method string, u *url.URL, contentType string) Request {
	r := Request{}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		r.Group, parts = parts[1], parts[3:]
	default:
		r.Resource, parts = u.Path, nil // discovery
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		r.Resource = parts[0]
	}
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Resource += "/" + parts[2]
	}
	query := u.Query()
	r.Verb = verb(method, query, contentType, r.Name != "")
	r.Initial = query.Get("sendInitialEvents") == "true" || r.Verb == "list" && query.Has("resourceVersion")
	return r
}

func verb(method string, query url.Values, contentType string, named bool) string {
	switch {
	case query.Get("dryRun") != "":
		return "try"
	case method == http.MethodGet && query.Get("watch") != "":
		return "watch"
	case method == http.MethodGet && named:
		return "get"
	case method == http.MethodGet:
		return "list"
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	case method == http.MethodPatch && strings.HasPrefix(contentType, "application/apply-patch"):
		return "apply"
	default:
		return strings.ToLower(method)
	}
}

// Transport is a function that is a http.RoundTripper.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }
