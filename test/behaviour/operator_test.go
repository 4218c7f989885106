// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
)

// request is one request that an operator sent.
type request struct {
	harness.Request

	at   time.Time
	code int
}

func (r request) String() string { return fmt.Sprintf("%s -> %d", r.Request, r.code) }

// recorder remembers requests.
type recorder struct {
	mu       sync.Mutex
	requests []request
}

// before returns a transport that records what it hands on.
func (r *recorder) before(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(req *http.Request) (*http.Response, error) {
		entry := request{Request: harness.Parse(req.Method, req.URL, req.Header.Get("Content-Type")), at: time.Now()}
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
	for _, gvk := range object.Kinds {
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		kinds[resource.Resource] = gvk.Kind
	}
	var found []string
	for _, r := range requests {
		found = append(found, kinds[r.Resource]+"/"+r.Name)
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
	options := harness.ManagerOptions(e.namespace)
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
