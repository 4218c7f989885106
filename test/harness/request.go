// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
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

// resolver reads the paths of requests as the API server does.
var resolver = request.RequestInfoFactory{
	APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
}

// Parse says what a request to the API server is about. Discovery has its path as the resource.
func Parse(method string, u *url.URL, contentType string) Request {
	info, _ := resolver.NewRequestInfo(&http.Request{Method: method, URL: u}) // an error leaves what could be read
	r := Request{
		Verb: info.Verb, Group: info.APIGroup, Resource: path.Join(info.Resource, info.Subresource), Namespace: info.Namespace, Name: info.Name,
	}
	query := u.Query()
	switch {
	case !info.IsResourceRequest:
		r.Resource = u.Path
	case query.Get("dryRun") != "":
		r.Verb = "try"
	case r.Verb == "patch" && strings.HasPrefix(contentType, "application/apply-patch"):
		r.Verb = "apply"
	}
	if r.Resource == "namespaces" {
		r.Namespace = "" // it is in none itself
	}
	r.Initial = query.Get("sendInitialEvents") == "true" || r.Verb == "list" && query.Has("resourceVersion")
	return r
}

// Transport is a function that is a http.RoundTripper.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }
