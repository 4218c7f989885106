// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
)

// Operator is an operator that runs in this process.
type Operator struct {
	Manager ctrl.Manager
	Ended   <-chan struct{} // closed when it has ended

	cancel context.CancelFunc
	err    error
}

// Start starts an operator. register, if not empty, adds kinds. Start does not wait until the operator is active.
func Start(ctx context.Context, config *rest.Config, options manager.Options, register ...func(*manager.Operator) error) (*Operator, error) {
	ctx, cancel := context.WithCancel(ctx)
	mgr, err := manager.New(ctx, config, options)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("set up an operator: %w", err)
	}
	for _, add := range register {
		if err := add(mgr); err != nil {
			cancel()
			return nil, fmt.Errorf("register a kind: %w", err)
		}
	}
	ended := make(chan struct{})
	op := &Operator{Manager: mgr, Ended: ended, cancel: cancel}
	go func() {
		defer close(ended)
		op.err = mgr.Start(ctx)
	}()
	return op, nil
}

// Build compiles the operator's binary as for a release, and returns its path. source is a folder with the repository's files, and dir is
// the folder for the binary.
func Build(ctx context.Context, source, dir string) (string, error) {
	binary := filepath.Join(dir, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, ".")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator of %s: %w\n%s", source, err, out)
	}
	return binary, nil
}

// Active waits until the operator may write. With leader election, only the leader may write.
func (op *Operator) Active(limit time.Duration) error {
	select {
	case <-op.Manager.Elected():
		return nil
	case <-op.Ended:
		return fmt.Errorf("the operator has ended: %w", op.err)
	case <-time.After(limit):
		return errors.New("the operator does not start")
	}
}

// Wait waits until the operator has ended, and returns its error.
func (op *Operator) Wait() error {
	<-op.Ended
	return op.err
}

// Cancel requests the end of the operator.
func (op *Operator) Cancel() { op.cancel() }

// Stop ends the operator, waits until it has ended, and returns its error.
func (op *Operator) Stop(limit time.Duration) error {
	op.cancel()
	select {
	case <-op.Ended:
		return op.err
	case <-time.After(limit):
		return errors.New("the operator does not end")
	}
}

// Sent is one request of an operator.
type Sent struct {
	Request

	At   time.Time
	Code int // status code of the answer; 0 without an answer
}

func (s Sent) String() string { return fmt.Sprintf("%s -> %d", s.Request, s.Code) }

// Record stores the requests of operators.
type Record struct {
	News // raised at every request and answer

	mu   sync.Mutex
	sent []Sent
}

// Before returns a transport that records each request and passes it to next.
func (r *Record) Before(next http.RoundTripper) http.RoundTripper {
	return Transport(func(req *http.Request) (*http.Response, error) {
		answered := r.Add(Parse(req.Method, req.URL, req.Header.Get("Content-Type")))
		response, err := next.RoundTrip(req)
		if response != nil {
			answered(response.StatusCode)
		}
		return response, err
	})
}

// Add records a request. The returned function records the answer.
func (r *Record) Add(request Request) (answered func(code int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := len(r.sent)
	r.sent = append(r.sent, Sent{Request: request, At: time.Now()})
	r.Raise()
	return func(code int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent[i].Code = code
		r.Raise()
	}
}

// Mark returns the current position in the record.
func (r *Record) Mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sent)
}

// Since returns those requests after a mark that the given function accepts.
func (r *Record) Since(mark int, is func(Sent) bool) []Sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Sent
	for _, s := range r.sent[mark:] {
		if is(s) {
			found = append(found, s)
		}
	}
	return found
}

// Objects returns kind and name of the requests' objects, sorted and without duplicates.
func Objects(sent []Sent) []string {
	kinds := map[string]string{}
	for _, gvk := range object.Kinds {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		kinds[resource.Resource] = gvk.Kind
	}
	var found []string
	for _, s := range sent {
		found = append(found, kinds[s.Resource]+"/"+s.Name)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Request is one request to the API server.
type Request struct {
	Verb      string // get, list, watch, create, update, patch, apply, delete, try (a dry run)
	Group     string // such as apps; empty for the core group
	Resource  string // such as deployments or dataservices/status
	Namespace string
	Name      string
	Initial   bool // whether the request fills a new cache: a list at any version, or a watch that begins with a list
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s/%s/%s", r.Verb, r.Namespace, r.Resource, r.Name)
}

// Reads reports whether the request reads one object or a list.
func (r Request) Reads() bool { return r.Verb == "get" || r.Verb == "list" }

// Writes reports whether the request writes an object other than an event or a lease.
func (r Request) Writes() bool {
	return !r.Reads() && r.Verb != "watch" && r.Verb != "try" && r.Resource != "events" && r.Resource != "leases" &&
		!strings.HasSuffix(r.Resource, "reviews")
}

// WritesStatus reports whether the request writes a status.
func (r Request) WritesStatus() bool { return r.Writes() && strings.HasSuffix(r.Resource, "/status") }

// WritesObject reports whether the request writes an object that is neither a status nor a part of a history.
func (r Request) WritesObject() bool {
	return r.Writes() && !strings.Contains(r.Resource, "/") && r.Resource != histories
}

// histories is the resource that stores earlier specs.
const histories = "controllerrevisions"

// WritesHistory reports whether the request adds a spec to a history, or deletes one.
func (r Request) WritesHistory() bool { return r.Writes() && r.Resource == histories }

// ReadsHistory reports whether the request lists the specs of a history. The operator sends such a request only if a history is full, to
// delete the oldest spec.
func (r Request) ReadsHistory() bool { return r.Verb == "list" && r.Resource == histories }

// resolver reads the paths of requests as the API server does.
var resolver = request.RequestInfoFactory{
	APIPrefixes: map[string]sets.Empty{"api": {}, "apis": {}}, GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
}

// Parse returns the target of a request to the API server. For a discovery request, Resource is the path.
func Parse(method string, u *url.URL, contentType string) Request {
	info, _ := resolver.NewRequestInfo(&http.Request{Method: method, URL: u}) // after an error, the fields that were parsed are enough
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
		r.Namespace = "" // a Namespace object is in no namespace
	}
	r.Initial = query.Get("sendInitialEvents") == "true" || r.Verb == "list" && query.Has("resourceVersion")
	return r
}

// Transport is a function that implements http.RoundTripper.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }
