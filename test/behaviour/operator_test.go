// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/version"
)

// request is one request that an operator sent.
type request struct {
	at        time.Time
	verb      string // get, list, watch, create, update, patch, apply, delete, try (a dry run)
	group     string // apps; empty for the core group
	resource  string // deployments, dataservices/status
	namespace string
	name      string
	code      int
}

func (r request) String() string {
	return fmt.Sprintf("%s %s/%s/%s -> %d", r.verb, r.namespace, r.resource, r.name, r.code)
}

func (r request) reads() bool { return r.verb == "get" || r.verb == "list" }

// writes tells whether it is to change something that users care for; events and leases are not.
func (r request) writes() bool {
	return !r.reads() && r.verb != "watch" && r.verb != "try" && r.resource != "events" && r.resource != "leases" &&
		!strings.HasSuffix(r.resource, "reviews")
}

func (r request) writesStatus() bool { return r.writes() && strings.HasSuffix(r.resource, "/status") }
func (r request) writesObject() bool { return r.writes() && !strings.Contains(r.resource, "/") }

// recorder remembers requests.
type recorder struct {
	mu       sync.Mutex
	requests []request
}

// before returns a transport that records what it hands on.
func (r *recorder) before(next http.RoundTripper) http.RoundTripper {
	return transport(func(req *http.Request) (*http.Response, error) {
		entry := parse(req.Method, req.URL, req.Header.Get("Content-Type"))
		entry.at = time.Now()
		r.mu.Lock()
		i := len(r.requests)
		r.requests = append(r.requests, entry)
		r.mu.Unlock()
		response, err := next.RoundTrip(req)
		if response != nil {
			r.mu.Lock()
			r.requests[i].code = response.StatusCode
			r.mu.Unlock()
		}
		return response, err
	})
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// parse reads the API server's paths: /api/v1/namespaces/ns/configmaps/name and
// /apis/group/version/..., with a subresource at the end at times.
func parse(method string, u *url.URL, contentType string) request {
	r := request{}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		r.group, parts = parts[1], parts[3:]
	default:
		r.resource, parts = u.Path, nil // discovery
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		r.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		r.resource = parts[0]
	}
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.resource += "/" + parts[2]
	}
	switch method {
	case http.MethodGet:
		r.verb = "get"
		if r.name == "" {
			r.verb = "list"
		}
		if u.Query().Get("watch") != "" {
			r.verb = "watch"
		}
	case http.MethodPost:
		r.verb = "create"
	case http.MethodPut:
		r.verb = "update"
	case http.MethodPatch:
		r.verb = "patch"
		if strings.HasPrefix(contentType, "application/apply-patch") {
			r.verb = "apply"
		}
	default:
		r.verb = strings.ToLower(method)
	}
	if u.Query().Get("dryRun") != "" {
		r.verb = "try"
	}
	return r
}

// mark is a place in the record: now.
func (r *recorder) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// since returns the requests after a mark that are as asked for.
func (r *recorder) since(mark int, is func(request) bool) []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []request
	for _, entry := range r.requests[mark:] {
		if is(entry) {
			found = append(found, entry)
		}
	}
	return found
}

// objects returns kind and name of what requests are about, sorted, each once.
func objects(requests []request) []string {
	kinds := map[string]string{}
	for _, gvk := range apply.Kinds {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		kinds[resource.Resource] = gvk.Kind
	}
	var found []string
	for _, r := range requests {
		found = append(found, kinds[r.resource]+"/"+r.name)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// operator is one that runs in this process.
type operator struct {
	*recorder
	t       *testing.T
	cancel  context.CancelFunc
	stopped chan struct{}
	elected <-chan struct{}
	err     error
}

// startOperator runs an operator for the test's namespace until the test ends.
func (e *env) startOperator(settings ...func(*rest.Config, *manager.Options)) *operator {
	e.Helper()
	op := e.launch(settings...)
	select {
	case <-op.elected:
	case <-op.stopped:
		e.Fatalf("the operator has ended: %v", op.err)
	case <-time.After(patience):
		e.Fatal("the operator does not start")
	}
	return op
}

// launch starts an operator and does not wait until it is active.
func (e *env) launch(settings ...func(*rest.Config, *manager.Options)) *operator {
	e.Helper()
	cfg := rest.CopyConfig(config)
	options := manager.Options{
		WatchNamespaces:         []string{e.namespace},
		MaxConcurrentReconciles: 8,
		ResyncPeriod:            10 * time.Hour,
		MetricsBindAddress:      "0",
		ProbeBindAddress:        "0",
		PprofBindAddress:        "0",
		SkipNameValidation:      true,
		Version:                 version.Version,
	}
	for _, set := range settings {
		set(cfg, &options)
	}
	op := &operator{recorder: &recorder{}, t: e.T, stopped: make(chan struct{})}
	cfg.Wrap(op.before)
	ctx, cancel := context.WithCancel(e.ctx)
	op.cancel = cancel
	mgr, err := manager.New(ctx, cfg, options)
	if err != nil {
		cancel()
		e.Fatalf("set up an operator: %v", err)
	}
	op.elected = mgr.Elected()
	go func() {
		defer close(op.stopped)
		op.err = mgr.Start(ctx)
	}()
	e.Cleanup(op.stop)
	return op
}

// stop ends the operator and waits until it has ended.
func (op *operator) stop() {
	op.t.Helper()
	op.cancel()
	select {
	case <-op.stopped:
	case <-time.After(patience):
		op.t.Error("the operator does not end")
	}
}
